package shuffle

import (
	"container/list"
	"fmt"
	"time"
)

// Limits of a gate that follow from its region and the protocol.
const (
	// MaxInputs is the largest number of inputs of one gate.
	MaxInputs = 1 << 20
	// MaxInputTimeout is the longest time that an input may wait for its partition.
	MaxInputTimeout = 30 * 24 * time.Hour
)

// A SubpartitionConsumer is a channel of a gate, somewhere, that reads or is to
// read a subpartition.
type SubpartitionConsumer interface {
	// Failed says that the channel will get no data, or none beyond what is
	// committed. It is called like the methods of a PartitionHost.
	Failed(err error)
	// Place returns gate and channel, for operators. It may be called at any
	// time, also with locks held, and must not call out.
	Place() (gate uint64, channel int)
}

// A SubpartitionRequest is a consumer's claim to a subpartition: once started, it
// waits until the partition is there, is attached then, or fails. Its methods may
// be called from any number of goroutines; all but the first call of Close,
// Vanish or Abort do nothing.
type SubpartitionRequest struct {
	manager      *ResultPartitionManager
	id           PartitionID
	subpartition int
	who          Principal
	token        string
	consumer     SubpartitionConsumer

	// The fields below are guarded by the manager's lock.
	waiting   *list.Element    // in the manager's list for the partition
	deadline  *deadline        // of waiting
	partition *HostedPartition // while attached
}

// NewRequest returns a request for a subpartition on behalf of a consumer, which
// shows a token.
func (m *ResultPartitionManager) NewRequest(id PartitionID, subpartition int, who Principal, token string, consumer SubpartitionConsumer) *SubpartitionRequest {
	return &SubpartitionRequest{manager: m, id: id, subpartition: subpartition, who: who, token: token, consumer: consumer}
}

// Start asks for the subpartition, once. If the partition is not there or not
// mapped yet, the request waits for it until the timeout ends: then the consumer
// gets ErrPartitionNotFound, as it does if it may not read the partition. A
// partition that has ended fails at once with what became of it, a subpartition
// that has or had a consumer with ErrAlreadyConsumed, one out of range with
// ErrInvalidArgument.
//
// The outcome is told to the consumer or to the host, possibly before Start has
// returned.
func (r *SubpartitionRequest) Start(timeout time.Duration) {
	m := r.manager
	m.mu.Lock()
	defer m.unlock()
	if m.closed {
		m.fail(r, fmt.Errorf("partition %s: partition manager %w", r.id, ErrClosed))
		return
	}
	if m.serve(r) {
		return
	}
	notFound := fmt.Errorf("%w: %s did not appear within %v", ErrPartitionNotFound, r.id, timeout)
	if timeout <= 0 {
		m.fail(r, notFound)
		return
	}
	waiting := m.waiting[r.id]
	if waiting == nil {
		waiting = list.New()
		m.waiting[r.id] = waiting
	}
	r.waiting = waiting.PushBack(r)
	r.deadline = m.addDeadline(timeout, func() {
		r.stopWaiting()
		m.fail(r, notFound)
	})
}

// Subpartition returns which subpartition was asked for.
func (r *SubpartitionRequest) Subpartition() int { return r.subpartition }

// Consumer returns the consumer that asked.
func (r *SubpartitionRequest) Consumer() SubpartitionConsumer { return r.consumer }

// Close says that the consumer is done with the subpartition and has unmapped
// it; consumed is whether it has read to the end.
func (r *SubpartitionRequest) Close(consumed bool) {
	m := r.manager
	m.mu.Lock()
	defer m.unlock()
	r.leave(consumed, "its consumer closed it before the end")
}

// Vanish says that the consumer's connection has ended.
func (r *SubpartitionRequest) Vanish(reason string) {
	m := r.manager
	m.mu.Lock()
	defer m.unlock()
	if r.partition != nil {
		r.partition.abandoned = true
	}
	r.leave(false, reason)
}

// Abort ends the request with an error that the consumer is told.
func (r *SubpartitionRequest) Abort(err error) {
	m := r.manager
	m.mu.Lock()
	defer m.unlock()
	if r.waiting == nil && r.partition == nil {
		return
	}
	r.leave(false, err.Error())
	m.tell(func() { r.consumer.Failed(err) })
}

// leave ends the request. The manager's lock is held.
func (r *SubpartitionRequest) leave(consumed bool, reason string) {
	r.stopWaiting()
	if p := r.partition; p != nil {
		r.partition = nil
		p.detach(r.subpartition, consumed, reason)
	}
}

// stopWaiting takes the request out of the waiting ones. The manager's lock is
// held.
func (r *SubpartitionRequest) stopWaiting() {
	if r.waiting == nil {
		return
	}
	m := r.manager
	waiting := m.waiting[r.id]
	waiting.Remove(r.waiting)
	if waiting.Len() == 0 {
		delete(m.waiting, r.id)
	}
	r.waiting = nil
	m.deadlines.remove(r.deadline)
}
