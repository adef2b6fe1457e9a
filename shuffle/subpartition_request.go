package shuffle

import (
	"container/list"
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

// A SubpartitionRequest is a consumer's claim to a subpartition: it waits until
// the partition is there, is attached then, or fails. Its methods may be called
// from any number of goroutines; all but the first call of Close, Vanish or
// Abort do nothing.
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
