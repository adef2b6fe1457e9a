package registry

import (
	"container/list"
	"fmt"
	"time"

	"shuffled/shuffle"
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

// A SubpartitionClaim says which subpartition a consumer reads, and who it is.
type SubpartitionClaim struct {
	Partition shuffle.PartitionID
	// Name is what the consumer calls it, for errors.
	Name string
	// Owner is the user whose partition is meant.
	Owner        uint32
	Subpartition int
	// MinAttempt is the oldest attempt that will do. Exact says that no newer one
	// will.
	MinAttempt uint32
	Exact      bool
	Who        shuffle.Principal
	Token      string
}

func (c *SubpartitionClaim) key() PartitionKey {
	return PartitionKey{ID: c.Partition, Owner: c.Owner}
}

func (c *SubpartitionClaim) label() string {
	spec := shuffle.PartitionSpec{ID: c.Partition, Name: c.Name}
	return spec.Label()
}

// A SubpartitionRequest is a consumer's claim to a subpartition: once started, it
// waits until the partition is there, is attached then, or fails. Its methods may
// be called from any number of goroutines; all but the first call of Close,
// ConnectionEnded or Abort do nothing.
type SubpartitionRequest struct {
	manager  *ResultPartitionManager
	claim    SubpartitionClaim
	consumer SubpartitionConsumer

	// The fields below are guarded by the manager's lock.
	waiting   *list.Element    // in the manager's list for the partition
	deadline  *deadline        // of waiting
	partition *HostedPartition // while attached
	refused   bool             // it was reported that the user may not read
}

// NewRequest returns a request for a subpartition on behalf of a consumer.
func (m *ResultPartitionManager) NewRequest(claim SubpartitionClaim,
	consumer SubpartitionConsumer) *SubpartitionRequest {
	return &SubpartitionRequest{manager: m, claim: claim, consumer: consumer}
}

// Start asks for the subpartition, once. If the partition is not there or not
// mapped yet, or older than what will do, the request waits for it until the
// timeout ends: then the consumer gets ErrPartitionNotFound, as it does if it may
// not read the partition. A partition that has ended fails at once with what became
// of it, one that is newer than what will do with ErrFenced, a subpartition that
// has or had a consumer with ErrAlreadyConsumed, one out of range with
// ErrInvalidArgument.
//
// The outcome is told to the consumer or to the host, possibly before Start has
// returned.
func (r *SubpartitionRequest) Start(timeout time.Duration) {
	m := r.manager
	m.mu.Lock()
	defer m.unlock()
	if m.closed {
		m.fail(r, fmt.Errorf("partition %s: partition manager %w", r.claim.label(), shuffle.ErrClosed))
		return
	}
	if m.serve(r) {
		return
	}
	if timeout <= 0 {
		m.fail(r, r.notFound(timeout))
		return
	}
	key := r.claim.key()
	waiting := m.waiting[key]
	if waiting == nil {
		waiting = list.New()
		m.waiting[key] = waiting
	}
	r.waiting = waiting.PushBack(r)
	r.deadline = m.addDeadline(timeout, func() {
		r.stopWaiting()
		m.fail(r, r.notFound(timeout))
	})
}

// notFound is what the consumer is told of a partition that did not come, and of
// one that it may not read.
func (r *SubpartitionRequest) notFound(timeout time.Duration) error {
	which := fmt.Sprintf("%s of uid %d", r.claim.label(), r.claim.Owner)
	if r.claim.MinAttempt > 0 {
		which += fmt.Sprintf(", attempt %d", r.claim.MinAttempt)
		if !r.claim.Exact {
			which += " or newer"
		}
	}
	if r.claim.Owner == r.claim.Who.UID {
		return fmt.Errorf("%w: %s did not appear within %v (that of another user is read by naming its Owner)",
			shuffle.ErrPartitionNotFound, which, timeout)
	}
	return fmt.Errorf("%w: %s did not appear within %v", shuffle.ErrPartitionNotFound, which, timeout)
}

// Subpartition returns which subpartition was asked for.
func (r *SubpartitionRequest) Subpartition() int { return r.claim.Subpartition }

// Who returns on whose behalf the request was made.
func (r *SubpartitionRequest) Who() shuffle.Principal { return r.claim.Who }

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

// ConnectionEnded says that the consumer's connection has ended.
func (r *SubpartitionRequest) ConnectionEnded(reason string) {
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
		p.detach(r.claim.Subpartition, consumed, reason)
	}
}

// stopWaiting takes the request out of the waiting ones. The manager's lock is
// held.
func (r *SubpartitionRequest) stopWaiting() {
	if r.waiting == nil {
		return
	}
	m := r.manager
	waiting := m.waiting[r.claim.key()]
	waiting.Remove(r.waiting)
	if waiting.Len() == 0 {
		delete(m.waiting, r.claim.key())
	}
	r.waiting = nil
	m.deadlines.remove(r.deadline)
}
