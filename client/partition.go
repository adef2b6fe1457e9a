package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"shuffled/internal/ctxerr"
	"shuffled/internal/foreigntext"
	"shuffled/internal/partition"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/shuffle"
)

// requestBatch is how many free segments a producer tries to have in stock.
const requestBatch = 32

// maxCause is the longest reason of a failure that is sent, in bytes.
const maxCause = 4096

// CreatePartition creates a result partition that this process produces. Its
// consumers may ask for it before and after. The caller must Close it.
//
// What the partition requires is there for it from then on, whatever others hold. If
// it is not at first, the daemon has others give back what they need not have, and
// CreatePartition waits for that as long as the daemon does (its --admission-timeout, 5
// seconds by default).
//
// Errors: shuffle.ErrInvalidArgument for a spec outside its range;
// ErrInsufficientBuffers, ErrNoMemory and ErrQuotaExceeded for want of memory or
// by a limit, which the message names; ErrDraining while the daemon is about to
// end. ErrAlreadyExists is returned while this attempt is there, produced or
// finished and not consumed, or an older one that has finished (see
// PartitionSpec.Replace); ErrFenced if this attempt has ended, or a newer one is
// there or has ended. Which of the two is a matter of the partition's state when
// the daemon decides; both are a *shuffle.AttemptError, whose Next can be created.
//
// When ctx ends in the middle, what was created is taken back, and a later call of
// this client with the same attempt comes after that: the attempt is spent only if
// a consumer was attached to it meanwhile. After ErrDaemonLost it may be spent.
func (c *Client) CreatePartition(ctx context.Context, spec shuffle.PartitionSpec) (shuffle.ResultPartition, error) {
	if err := c.checkCall(ctx); err != nil {
		return nil, during("create partition "+spec.Label(), err)
	}
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if err := c.awaitUndone(ctx, spec.ID); err != nil {
		return nil, during("create partition "+spec.Label(), err)
	}
	r := &remotePartition{client: c, label: spec.Label()}
	settled := make(chan struct{})
	answer, err := c.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_CreatePartition{
		CreatePartition: &controlpb.CreatePartition{
			PartitionId: spec.ID[:], Attempt: spec.Attempt, Name: spec.Name, Type: uint32(spec.Type),
			Subpartitions:     uint32(spec.Subpartitions),
			BuffersPerChannel: uint32(spec.BuffersPerChannel), FloatingBuffers: uint32(spec.FloatingBuffers),
			MaxBuffersPerChannel: uint32(min(spec.MaxBuffersPerChannel, 1<<31-1)),
			OnConsumerLost:       uint32(spec.OnConsumerLost),
			AllowedUids:          spec.AllowedUIDs, AllowedGids: spec.AllowedGIDs, Token: spec.Token,
			Replace: spec.Replace,
		},
	}}, &outcome{
		succeeded: r.created, undo: func(*controlpb.ServerMessage) { r.giveUp() }, left: c.abandonCreation,
		settled: func() { c.undone(spec.ID, settled) },
	})
	if err != nil {
		c.undo(spec.ID, settled)
		return nil, during("create partition "+r.label, err)
	}
	defer answer.drop()
	p, err := r.open(ctx, spec, answer)
	if err != nil {
		r.giveUp()
		return nil, during("create partition "+r.label, err)
	}
	return p, nil
}

// undo takes note that a creation was given up before it was answered: another one
// of that id has to wait until it is taken back.
func (c *Client) undo(id shuffle.PartitionID, settled chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-settled: // it was answered
	default:
		c.undoing[id] = settled
	}
}

// undone says that a creation is settled: what takes it back was sent.
func (c *Client) undone(id shuffle.PartitionID, settled chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-settled:
	default:
		close(settled)
	}
	if c.undoing[id] == settled {
		delete(c.undoing, id)
	}
}

// awaitUndone waits while a creation that was given up is not taken back, so that
// the daemon hears of that before it hears of the next one.
func (c *Client) awaitUndone(ctx context.Context, id shuffle.PartitionID) error {
	c.mu.Lock()
	settled := c.undoing[id]
	c.mu.Unlock()
	if settled == nil {
		return nil
	}
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return ctxerr.Of(ctx)
	}
}

// abandonCreation has the daemon not wait for memory for which nobody waits any more.
func (c *Client) abandonCreation(request uint64) {
	if c.common&ipc.FeatureAbandonCreation != 0 {
		c.post(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_AbandonCreation{
			AbandonCreation: &controlpb.AbandonCreation{CreationRequestId: request},
		}})
	}
}

// A remotePartition connects a partition of this process to the daemon. It is
// the partition.Lifecycle of the partition and the pool.Source of its pool.
type remotePartition struct {
	client           *Client
	label            string // of the partition, for errors and the log
	epoch            uint64
	region, doorbell *memseg.Region

	segments int // of the region

	poolMu    sync.Mutex
	returning []int // to be sent back
	destroyed bool

	mu        sync.Mutex                 // held while partition is told of something
	partition *partition.ResultPartition // nil until it is open
	early     []func()                   // what came before
}

// created makes notifications about the partition find it. It runs on the
// receiving goroutine.
func (r *remotePartition) created(msg *controlpb.ServerMessage) {
	r.epoch = msg.GetPartitionCreated().GetEpoch()
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	r.client.partitions[r.epoch] = r
}

// giveUp releases a partition that nobody has seen.
func (r *remotePartition) giveUp() {
	r.client.send(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_ReleasePartition{
		ReleasePartition: &controlpb.ReleasePartition{Epoch: r.epoch, Undo: true},
	}})
	r.mu.Lock()
	p := r.partition
	r.mu.Unlock()
	if p != nil {
		_ = p.Close() // notifications may be at it
	} else {
		_ = r.ClosePartition()
	}
}

// open maps the partition and says so.
func (r *remotePartition) open(ctx context.Context, spec shuffle.PartitionSpec,
	answer reply) (*partition.ResultPartition, error) {
	m := answer.msg.GetPartitionCreated()
	if m == nil {
		return nil, fmt.Errorf("answer is not partition_created: %w", shuffle.ErrProtocol)
	}
	var err error
	if r.region, r.doorbell, err = answer.take(); err != nil {
		return nil, err
	}
	layout, err := memseg.DecodePartitionHeader(r.region.Bytes(), int64(r.region.Size()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, shuffle.ErrProtocol)
	}
	if layout.ID != [16]byte(spec.ID) || layout.Epoch != r.epoch || layout.Subpartitions != spec.Subpartitions ||
		layout.Segments != int(m.GetPoolMax()) {
		return nil, fmt.Errorf("the region is not that of the partition: %w", shuffle.ErrProtocol)
	}
	r.segments = layout.Segments
	segments, err := pool.NewLocalBufferPool(pool.LocalConfig{
		Required: int(m.GetPoolRequired()), Max: layout.Segments, Subpartitions: layout.Subpartitions,
		MaxBuffersPerChannel: spec.MaxBuffersPerChannel, RequestBatch: requestBatch,
	}, r)
	if err != nil {
		return nil, fmt.Errorf("partition_created: %w: %w", err, shuffle.ErrProtocol)
	}
	if err := segments.SetNumBuffers(int(m.GetPoolSize())); err != nil {
		return nil, fmt.Errorf("partition_created.pool_size: %w: %w", err, shuffle.ErrProtocol)
	}
	p, err := partition.NewResultPartition(spec, r.region, layout, r.doorbell, segments, r)
	if err != nil {
		return nil, err
	}
	r.isOpen(p)
	// What is written once the daemon has heard of it is not lost with us.
	return p, r.request(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_PartitionMapped{
		PartitionMapped: &controlpb.PartitionMapped{Epoch: r.epoch},
	}})
}

// isOpen tells the partition what came before it was there.
func (r *remotePartition) isOpen(p *partition.ResultPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partition = p
	for _, f := range r.early {
		f()
	}
	r.early = nil
}

// tell calls f once the partition is there, in the order of the calls of tell.
func (r *remotePartition) tell(f func(p *partition.ResultPartition)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.partition == nil {
		r.early = append(r.early, func() { f(r.partition) })
		return
	}
	f(r.partition)
}

func (r *remotePartition) daemonLost(err error) {
	r.tell(func(p *partition.ResultPartition) { p.SetDaemonLost(err) })
}

func (r *remotePartition) resized(m *controlpb.PoolResized) {
	r.tell(func(p *partition.ResultPartition) {
		// How many there are is known once it is open.
		granted, err := ipc.DecodeSegments("pool_resized.granted", m.GetGranted(), r.segments)
		if err == nil {
			err = p.PoolResized(int(m.GetPoolSize()), granted)
		}
		if err != nil && !errors.Is(err, shuffle.ErrClosed) {
			r.client.log.Warn("resize the pool", "partition", r.label, "error", err)
		}
	})
}

func (r *remotePartition) consumerAttached(m *controlpb.ConsumerAttached, a *arrival) {
	link, err := r.client.linkConsumer(m, a)
	if err != nil {
		r.client.log.Error("attach consumer", "partition", r.label, "subpartition", m.GetSubpartition(), "error", err)
		r.tell(func(p *partition.ResultPartition) {
			p.DetachConsumer(int(m.GetSubpartition()), false, "its gate cannot be mapped: "+err.Error())
		})
		return
	}
	r.tell(func(p *partition.ResultPartition) {
		if err := p.AttachConsumer(int(m.GetSubpartition()), link); err != nil {
			link.Close()
			r.client.log.Debug("attach consumer", "partition", r.label, "error", err)
		}
	})
}

// linkConsumer links a consumer whose gate is mapped.
func (c *Client) linkConsumer(m *controlpb.ConsumerAttached, a *arrival) (*partition.ConsumerLink, error) {
	key, mapping, err := a.takePeer()
	if err != nil {
		return nil, err
	}
	link, err := partition.NewConsumerLink(mapping.region, mapping.gate, mapping.doorbell, int(m.GetChannel()),
		func() { c.maps.release(key) })
	if err != nil {
		c.maps.release(key)
	}
	return link, err
}

// openConsumerGate maps the gate of a consumer.
func openConsumerGate(m *controlpb.ConsumerAttached, fds ipc.FDs, lost error) (*peerMapping, error) {
	region, doorbell, err := mapBoth(fds, lost, "consumer_attached", memseg.ReadOnly, m.GetGateRegionSize(),
		m.GetDoorbellSize())
	if err != nil {
		return nil, err
	}
	mapping := &peerMapping{region: region, doorbell: doorbell}
	mapping.gate, err = memseg.DecodeGateHeader(region.Bytes(), int64(region.Size()))
	if err == nil && mapping.gate.ID != m.GetGateId() {
		err = fmt.Errorf("consumer_attached.gate_id: got %d, its region says %d", m.GetGateId(), mapping.gate.ID)
	}
	if err != nil {
		_ = region.Close()
		_ = doorbell.Close()
		return nil, fmt.Errorf("%w: %w", err, shuffle.ErrProtocol)
	}
	return mapping, nil
}

// FinishPartition implements partition.Lifecycle.
func (r *remotePartition) FinishPartition(ctx context.Context) error {
	return r.request(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_FinishPartition{
		FinishPartition: &controlpb.FinishPartition{Epoch: r.epoch},
	}})
}

// FailPartition implements partition.Lifecycle. It is sent also when ctx has ended: to
// stop by one's context and then say so is usual.
func (r *remotePartition) FailPartition(ctx context.Context, cause string) error {
	cause = foreigntext.Cut(cause, maxCause)
	return r.requestAnyway(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_FailPartition{
		FailPartition: &controlpb.FailPartition{Epoch: r.epoch, Cause: cause},
	}})
}

// ReleasePartition implements partition.Lifecycle. It is sent also when ctx has ended.
func (r *remotePartition) ReleasePartition(ctx context.Context) error {
	return r.requestAnyway(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_ReleasePartition{
		ReleasePartition: &controlpb.ReleasePartition{Epoch: r.epoch},
	}})
}

// requestAnyway is request that sends the message also when ctx has ended; then it
// does not wait.
func (r *remotePartition) requestAnyway(ctx context.Context, msg *controlpb.ClientMessage) error {
	if err := ctxerr.Of(ctx); err != nil {
		r.client.send(msg)
		return fmt.Errorf("partition %s: sent, not acknowledged: %w", r.label, err)
	}
	return r.request(ctx, msg)
}

// request waits for the acknowledgement of a message.
func (r *remotePartition) request(ctx context.Context, msg *controlpb.ClientMessage) error {
	answer, err := r.client.call(ctx, msg, nil)
	if err != nil {
		return during("partition "+r.label, err)
	}
	answer.drop()
	return nil
}

// ClosePartition implements partition.Lifecycle. It does not take r.mu, which may
// be held by who waits for the partition's end.
func (r *remotePartition) ClosePartition() error {
	c := r.client
	c.mu.Lock()
	delete(c.partitions, r.epoch)
	c.mu.Unlock()
	var err error
	if r.region != nil {
		err = r.region.Close()
	}
	if r.doorbell != nil {
		_ = r.doorbell.Close()
	}
	c.post(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_ClosePartition{
		ClosePartition: &controlpb.ClosePartition{Epoch: r.epoch},
	}})
	return err
}

// Attach implements pool.Source. Deliveries go through the partition.
func (r *remotePartition) Attach(*pool.LocalBufferPool) {}

// Request implements pool.Source. What it asks for comes later.
func (r *remotePartition) Request(n int) []int {
	r.poolMu.Lock()
	destroyed := r.destroyed
	r.poolMu.Unlock()
	if !destroyed {
		r.client.post(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_SegmentsWanted{
			SegmentsWanted: &controlpb.SegmentsWanted{Epoch: r.epoch, Count: uint32(n)},
		}})
	}
	return nil
}

// Recycle implements pool.Source. What comes back while a message waits to be sent
// goes with it.
func (r *remotePartition) Recycle(segments []int) {
	if len(segments) == 0 {
		return
	}
	r.poolMu.Lock()
	isFirst := len(r.returning) == 0
	r.returning = append(r.returning, segments...)
	r.poolMu.Unlock()
	if isFirst {
		// Without a connection nobody wants them.
		_ = r.client.outbox.PostFunc(r.returned)
	}
}

// returned makes the message that sends segments back.
func (r *remotePartition) returned() (proto.Message, ipc.FDs, error) {
	r.poolMu.Lock()
	segments := r.returning
	r.returning = nil
	r.poolMu.Unlock()
	slices.Sort(segments) // neighbours make one range
	ranges := ipc.EncodeSegments(segments)
	now := min(len(ranges), ipc.MaxRangesPerMessage)
	if now < len(ranges) {
		rest, _ := ipc.DecodeSegments("rest", ranges[now:], r.segments)
		r.Recycle(rest)
	}
	return &controlpb.ClientMessage{Body: &controlpb.ClientMessage_SegmentsReturned{
		SegmentsReturned: &controlpb.SegmentsReturned{Epoch: r.epoch, Segments: ranges[:now]},
	}}, nil, nil
}

// Destroy implements pool.Source.
func (r *remotePartition) Destroy() {
	r.poolMu.Lock()
	defer r.poolMu.Unlock()
	r.destroyed = true
}
