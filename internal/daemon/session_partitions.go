package daemon

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"shuffled/internal/daemon/registry"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// decodeSpec reads and checks every field of a partition to create. The error
// wraps shuffle.ErrInvalidArgument.
func decodeSpec(m *controlpb.CreatePartition) (shuffle.PartitionSpec, error) {
	invalid := func(field string, got any, want string) (shuffle.PartitionSpec, error) {
		return shuffle.PartitionSpec{}, fieldError("create_partition."+field, got, want, shuffle.ErrInvalidArgument)
	}
	id, err := ipc.DecodePartitionID(m.GetPartitionId())
	if err != nil {
		return shuffle.PartitionSpec{}, fmt.Errorf("create_partition.partition_id: %w", err)
	}
	switch {
	case m.GetType() > math.MaxUint8:
		return invalid("type", m.GetType(), "at most 255")
	case m.GetSubpartitions() > shuffle.MaxSubpartitions:
		return invalid("subpartitions", m.GetSubpartitions(), fmt.Sprintf("1 to %d", shuffle.MaxSubpartitions))
	case m.GetMaxBuffersPerChannel() > math.MaxInt32:
		return invalid("max_buffers_per_channel", m.GetMaxBuffersPerChannel(), fmt.Sprintf("at most %d", math.MaxInt32))
	case m.GetOnConsumerLost() > math.MaxUint8:
		return invalid("on_consumer_lost", m.GetOnConsumerLost(), "0 or 1")
	}
	spec := shuffle.PartitionSpec{
		ID: id, Attempt: m.GetAttempt(), Name: m.GetName(), Type: shuffle.ResultPartitionType(m.GetType()),
		Subpartitions:     int(m.GetSubpartitions()),
		BuffersPerChannel: int(m.GetBuffersPerChannel()), FloatingBuffers: int(m.GetFloatingBuffers()),
		MaxBuffersPerChannel: int(m.GetMaxBuffersPerChannel()),
		OnConsumerLost:       shuffle.ConsumerLostPolicy(m.GetOnConsumerLost()),
		AllowedUIDs:          m.GetAllowedUids(), AllowedGIDs: m.GetAllowedGids(), Token: m.GetToken(),
		Replace: m.GetReplace(),
	}
	return spec, spec.Validate()
}

func (s *session) handleCreatePartition(id uint64, m *controlpb.CreatePartition) error {
	spec, err := decodeSpec(m)
	if err != nil {
		return err
	}
	if s.creates(id) {
		return fieldError("create_partition.request_id", id, "one that no other creation under way has",
			shuffle.ErrProtocol)
	}
	if err := s.server.checkDraining(); err != nil {
		return fmt.Errorf("create partition %s: %w", spec.Label(), err)
	}
	r, err := s.server.newHostedRegion(s, spec)
	if err != nil {
		return err
	}
	c := &creation{session: s, requestID: id, region: r, deadline: time.Now().Add(s.server.config.AdmissionTimeout)}
	r.creation = c
	// The name comes before the memory: an older attempt that this one fences may hold
	// what it needs.
	r.hosted, err = s.server.partitions.Register(registry.Registration{
		Spec: spec, Producer: s.who, Host: r, HoldWhileMapped: s.server.config.Isolation == StrictIsolation,
	})
	if err != nil {
		r.free(false)
		return fmt.Errorf("create %w", err)
	}
	s.begin(c)
	return c.start()
}

// creates reports whether a creation is under way for a request.
func (s *session) creates(requestID uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.creations[requestID] != nil
}

// begin remembers a creation until it is created or forgotten.
func (s *session) begin(c *creation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creations[c.requestID] = c
}

// created makes a partition one that this client produces. It reports false if the
// client is gone.
func (s *session) created(c *creation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false
	}
	delete(s.creations, c.requestID)
	s.partitions[c.region.layout.Epoch] = c.region
	return true
}

// forgetPartition takes a partition from the client that does not know of it.
func (s *session) forgetPartition(r *hostedRegion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		delete(s.partitions, r.layout.Epoch)
	}
}

func (s *session) forget(c *creation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.creations, c.requestID)
}

// handleAbandonCreation ends the wait of a creation. If it does not wait, its answer
// is on the way.
func (s *session) handleAbandonCreation(m *controlpb.AbandonCreation) error {
	s.mu.Lock()
	c := s.creations[m.GetCreationRequestId()]
	s.mu.Unlock()
	if c != nil {
		c.abandon(fmt.Errorf("it was abandoned by its client: %w", shuffle.ErrClosed))
	}
	return nil
}

// created returns what the producer is told of its partition.
func (r *hostedRegion) created() *controlpb.PartitionCreated {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &controlpb.PartitionCreated{
		Epoch: r.layout.Epoch, RegionSize: uint64(r.layout.RegionSize()),
		DoorbellSize: uint64(r.memory.doorbell.Size()),
		PoolRequired: uint32(r.required), PoolMax: uint32(r.layout.Segments), PoolSize: uint32(r.size),
	}
}

// region finds a partition that this client produces, or nil.
func (s *session) region(epoch uint64) *hostedRegion {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partitions[epoch]
}

// regionOf finds the partition that a request is about.
func (s *session) regionOf(request string, epoch uint64) (*hostedRegion, error) {
	if r := s.region(epoch); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("%s.epoch: got %#x, want that of a partition of this client: %w", request, epoch,
		shuffle.ErrPartitionNotFound)
}

func (s *session) handlePartitionMapped(id uint64, m *controlpb.PartitionMapped) error {
	r, err := s.regionOf("partition_mapped", m.GetEpoch())
	if err != nil {
		return err
	}
	if err := r.producerMapped(); err != nil {
		return err
	}
	s.acknowledge(id)
	return nil
}

func (s *session) handleSegmentsWanted(m *controlpb.SegmentsWanted) error {
	r := s.region(m.GetEpoch())
	if r == nil {
		return nil // closed meanwhile
	}
	if limit := uint32(r.layout.Segments); m.GetCount() > limit {
		return fieldError("segments_wanted.count", m.GetCount(), fmt.Sprintf("at most %d", limit), shuffle.ErrProtocol)
	}
	return r.want(int(m.GetCount()))
}

func (s *session) handleSegmentsReturned(m *controlpb.SegmentsReturned) error {
	r := s.region(m.GetEpoch())
	if r == nil {
		return nil // closed meanwhile
	}
	return r.takeBack(m.GetSegments())
}

func (s *session) handleClosePartition(m *controlpb.ClosePartition) error {
	r := s.region(m.GetEpoch())
	if r == nil {
		return fieldError("close_partition.epoch", fmt.Sprintf("%#x", m.GetEpoch()),
			"that of a partition of this client", shuffle.ErrProtocol)
	}
	s.mu.Lock()
	delete(s.partitions, m.GetEpoch())
	s.mu.Unlock()
	r.stopped.Store(true)
	r.producerClosed("the producer closed it unfinished")
	return nil
}

func (s *session) handleFinishPartition(id uint64, m *controlpb.FinishPartition) error {
	r, err := s.regionOf("finish_partition", m.GetEpoch())
	if err != nil {
		return err
	}
	if err := r.hosted.Finished(); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	r.endGrant(shuffle.ErrFinished)
	s.acknowledge(id)
	return nil
}

func (s *session) handleFailPartition(id uint64, m *controlpb.FailPartition) error {
	r, err := s.regionOf("fail_partition", m.GetEpoch())
	if err != nil {
		return err
	}
	if !utf8.ValidString(m.GetCause()) || len(m.GetCause()) > ipc.MaxErrorMessage {
		return fieldError("fail_partition.cause", fmt.Sprintf("%d bytes", len(m.GetCause())),
			fmt.Sprintf("at most %d of UTF-8", ipc.MaxErrorMessage), shuffle.ErrInvalidArgument)
	}
	if err := r.hosted.Failed(m.GetCause()); err != nil {
		return err
	}
	r.endGrant(shuffle.ErrPartitionFailed)
	r.stop()
	s.acknowledge(id)
	return nil
}

func (s *session) handleReleasePartition(id uint64, m *controlpb.ReleasePartition) error {
	r, err := s.regionOf("release_partition", m.GetEpoch())
	if err != nil {
		return err
	}
	if m.GetUndo() {
		r.hosted.Undone()
	} else {
		r.hosted.Released("by its producer")
	}
	r.endGrant(shuffle.ErrPartitionReleased)
	r.stop()
	s.acknowledge(id)
	return nil
}

func (s *session) handleNextAttempt(id uint64, m *controlpb.NextAttempt) error {
	partition, err := ipc.DecodePartitionID(m.GetPartitionId())
	if err != nil {
		return fmt.Errorf("next_attempt.partition_id: %w", err)
	}
	attempt, err := s.server.partitions.NextAttempt(partition, s.who.UID)
	if err != nil {
		return err
	}
	s.reply(id, &controlpb.ServerMessage{Body: &controlpb.ServerMessage_NextAttemptReply{
		NextAttemptReply: &controlpb.NextAttemptReply{Attempt: attempt},
	}})
	return nil
}

// encodePartitionInfo writes a row for the socket.
