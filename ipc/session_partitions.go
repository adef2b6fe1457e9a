package ipc

import (
	"fmt"
	"math"
	"unicode/utf8"

	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// decodeSpec reads and checks every field of a partition to create. The error
// wraps shuffle.ErrInvalidArgument.
func decodeSpec(m *controlpb.CreatePartition) (shuffle.PartitionSpec, error) {
	invalid := func(field string, got any, want string) (shuffle.PartitionSpec, error) {
		return shuffle.PartitionSpec{}, fieldError("create_partition."+field, got, want, shuffle.ErrInvalidArgument)
	}
	id, err := shuffle.PartitionIDFromBytes(m.GetPartitionId())
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
		AllowedUIDs:          m.GetAllowedUids(), AllowedGIDs: m.GetAllowedGids(), Token: m.GetToken(), Replace: m.GetReplace(),
	}
	return spec, spec.Validate()
}

func (s *session) handleCreatePartition(id uint64, m *controlpb.CreatePartition) error {
	spec, err := decodeSpec(m)
	if err != nil {
		return err
	}
	if err := s.server.checkDraining(); err != nil {
		return fmt.Errorf("create partition %s: %w", spec.Label(), err)
	}
	r, err := s.server.newHostedRegion(s, spec)
	if err != nil {
		return err
	}
	fds, err := shareReadWrite(r.memfd, r.doorbell)
	if err != nil {
		r.free(false)
		return fmt.Errorf("create partition %s: %w", spec.Label(), describeShortage(err))
	}
	hosted, err := s.server.partitions.Register(shuffle.Registration{
		Spec: spec, Producer: s.who, Host: r, HoldWhileMapped: s.server.config.Isolation == StrictIsolation,
	})
	if err != nil {
		fds.Close()
		r.free(false)
		return fmt.Errorf("create %w", err)
	}
	r.hosted = hosted
	s.server.statistics.partitionCreated()
	s.partitions[r.layout.Epoch] = r
	s.reply(id, &controlpb.ServerMessage{Body: &controlpb.ServerMessage_PartitionCreated{PartitionCreated: r.created()}}, fds...)
	r.start()
	return nil
}

// created returns what the producer is told of its partition.
func (r *hostedRegion) created() *controlpb.PartitionCreated {
	r.mu.Lock()
	defer r.mu.Unlock()
	created := &controlpb.PartitionCreated{
		Epoch: r.layout.Epoch, RegionSize: uint64(r.layout.RegionSize()), DoorbellSize: uint64(r.doorbell.Size()),
		PoolRequired: uint32(r.grant.Spec().Required), PoolMax: uint32(r.layout.Segments), PoolSize: uint32(r.size),
	}
	if r.handed > 0 {
		// The first segments of a new region are its lowest ones.
		created.Granted = []*controlpb.SegmentRange{{First: 0, Last: uint32(r.handed - 1)}}
	}
	return created
}

// region finds a partition that this client produces, or nil.
func (s *session) region(epoch uint64) *hostedRegion { return s.partitions[epoch] }

// regionOf finds the partition that a request is about.
func (s *session) regionOf(request string, epoch uint64) (*hostedRegion, error) {
	if r := s.region(epoch); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("%s.epoch: got %#x, want that of a partition of this client: %w", request, epoch, shuffle.ErrPartitionNotFound)
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
		return fieldError("close_partition.epoch", fmt.Sprintf("%#x", m.GetEpoch()), "that of a partition of this client", shuffle.ErrProtocol)
	}
	delete(s.partitions, m.GetEpoch())
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
	s.acknowledge(id)
	return nil
}

func (s *session) handleFailPartition(id uint64, m *controlpb.FailPartition) error {
	r, err := s.regionOf("fail_partition", m.GetEpoch())
	if err != nil {
		return err
	}
	if !utf8.ValidString(m.GetCause()) || len(m.GetCause()) > maxErrorMessage {
		return fieldError("fail_partition.cause", fmt.Sprintf("%d bytes", len(m.GetCause())), fmt.Sprintf("at most %d of UTF-8", maxErrorMessage), shuffle.ErrInvalidArgument)
	}
	if err := r.hosted.Failed(m.GetCause()); err != nil {
		return err
	}
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
	s.acknowledge(id)
	return nil
}
