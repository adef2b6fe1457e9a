package daemon

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// A creation is a partition that a client has asked for, until the answer. It
// waits while the segments that it requires are not there; the session goes on
// meanwhile. Whoever ends the wait answers: the pool by admitting it, or else the
// first to withdraw it.
type creation struct {
	session   *session
	requestID uint64
	region    *hostedRegion
	deadline  time.Time

	// Guarded by admissions.mu.
	waiting  *list.Element
	admitted bool
}

// mostWaitingPerUID is how many creations of one user may wait, so that no user can
// take all the places there are.
const mostWaitingPerUID = 256

// admissions has the creations of a server that wait for segments, and one goroutine
// that goes on with them.
type admissions struct {
	mu       sync.Mutex
	waiting  list.List      // of *creation, the earliest deadline first
	perUID   map[uint32]int // how many of them are whose
	admitted []*creation    // to be completed
	changed  chan struct{}
}

// wait has a creation wait, unless it was admitted meanwhile. It reports false if too
// many of its user do.
func (a *admissions) wait(c *creation) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	uid := c.region.uid
	switch {
	case c.admitted:
	case a.perUID[uid] >= mostWaitingPerUID:
		return false
	default:
		a.perUID[uid]++
		c.waiting = a.waiting.PushBack(c)
		a.signal()
	}
	return true
}

// admit goes on with a creation that the pool has admitted.
func (a *admissions) admit(c *creation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.admitted = true
	a.removeLocked(c)
	a.admitted = append(a.admitted, c)
	a.signal()
}

func (a *admissions) remove(c *creation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removeLocked(c)
}

func (a *admissions) removeLocked(c *creation) {
	if c.waiting == nil {
		return
	}
	a.waiting.Remove(c.waiting)
	c.waiting = nil
	uid := c.region.uid
	if a.perUID[uid]--; a.perUID[uid] == 0 {
		delete(a.perUID, uid)
	}
}

func (a *admissions) signal() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// due returns the creations that were admitted, one that has waited for long enough,
// and how long it is until the next one has if there is none.
func (a *admissions) due() (admitted []*creation, expired *creation, pause time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	admitted, a.admitted = a.admitted, nil
	first := a.waiting.Front()
	if first == nil {
		return admitted, nil, time.Hour
	}
	c := first.Value.(*creation)
	if pause = time.Until(c.deadline); pause > 0 {
		return admitted, nil, pause
	}
	a.removeLocked(c)
	return admitted, c, 0
}

// runAdmissions answers creations that had to wait, until ctx ends.
func (s *Server) runAdmissions(ctx context.Context) {
	for {
		admitted, expired, pause := s.admissions.due()
		for _, c := range admitted {
			if err := c.complete(); err != nil {
				c.session.refuseRequest(c.requestID, err)
			}
		}
		if expired != nil {
			expired.expire()
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.admissions.changed:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// start asks for what the partition requires. It is complete, or it has failed, or
// it waits, when start returns.
func (c *creation) start() error {
	a := &c.region.server.admissions
	waits, err := c.region.createGrant(func() { a.admit(c) })
	if err != nil {
		return c.fail(c.refusal(err))
	}
	if !waits {
		return c.complete()
	}
	if !a.wait(c) {
		c.expire()
	}
	return nil
}

// complete makes the partition, which has what it requires, and answers. An error is
// the answer.
func (c *creation) complete() error {
	r, s := c.region, c.session
	err := s.server.checkDraining()
	if err == nil {
		err = r.createMemory()
	}
	if err != nil {
		return c.fail(fmt.Errorf("create partition %s: %w", r.spec.Label(), describeShortage(err)))
	}
	if !s.created(c) {
		return c.fail(fmt.Errorf("create partition %s: its client is gone: %w", r.spec.Label(), shuffle.ErrClosed))
	}
	s.server.statistics.partitionCreated()
	created := r.created()
	s.answerFunc(c.requestID, sharedAnswer, func() (*controlpb.ServerMessage, ipc.FDs, error) {
		fds, err := s.server.share(s.outbox.Ended(),
			func() (ipc.FDs, error) { return shareReadWrite(r.memory.memfd, r.memory.doorbell) })
		if err != nil {
			s.forgetPartition(r)
			return nil, nil, c.fail(fmt.Errorf("create partition %s: %w", r.spec.Label(), describeShortage(err)))
		}
		return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_PartitionCreated{PartitionCreated: created}},
			fds, nil
	})
	r.start()
	return nil
}

// fail forgets the partition as if it had not been asked for, and returns err.
func (c *creation) fail(err error) error {
	c.session.forget(c)
	c.region.hosted.Undone()
	c.region.producerClosed("it could not be created")
	return err
}

// withdraw ends the wait. It returns nil if the creation does not wait any more, and
// else what it would have needed; the caller is the one to answer then.
func (c *creation) withdraw() error {
	c.region.mu.Lock()
	grant := c.region.grant
	c.region.mu.Unlock()
	if grant == nil {
		return nil // it has not come so far
	}
	err := grant.GiveUp()
	if err != nil {
		c.region.server.admissions.remove(c)
	}
	return err
}

// expire ends a wait that was long enough.
func (c *creation) expire() {
	if err := c.withdraw(); err != nil {
		c.session.refuseRequest(c.requestID, c.fail(c.refusal(err)))
	}
}

// abandon ends the wait of a creation that nobody wants any more, or that has ended
// otherwise.
func (c *creation) abandon(reason error) {
	if c.withdraw() != nil {
		c.session.refuseRequest(c.requestID,
			c.fail(fmt.Errorf("create partition %s: %w", c.region.spec.Label(), reason)))
	}
}

// namedHolders is how many holders of memory a refusal names.
const namedHolders = 3

// refusal describes why the partition is not admitted, and has the operator know.
func (c *creation) refusal(err error) error {
	err = c.describe(err)
	if errors.Is(err, shuffle.ErrInsufficientBuffers) {
		c.region.server.throttle.Warn(c.session.log, "partition refused", "error", err)
	}
	return err
}

// describe says who holds the memory that a partition would need, as far as who asks
// may know, and what can be done.
func (c *creation) describe(err error) error {
	r := c.region
	err = fmt.Errorf("create partition %s: %w", r.spec.Label(), err)
	if !errors.Is(err, shuffle.ErrInsufficientBuffers) {
		return describeShortage(err)
	}
	s := r.server
	var holders []string
	for _, h := range s.pool.LargestHolders(namedHolders) {
		holder := h.Listener.(*hostedRegion)
		name := "another user's partition"
		if state, may := holder.hosted.StateFor(c.session.operator()); may {
			name = fmt.Sprintf("partition %s (%s%s)", holder.spec.Label(), state, holder.describeKeeper())
		}
		holders = append(holders, fmt.Sprintf("%s %d", name, h.Held))
	}
	if len(holders) == 0 {
		return err
	}
	return fmt.Errorf("%w; most are held by: %s. Have those read, released or closed, let unread ones expire earlier (--retention), wait longer (--admission-timeout, %v), or raise --memory",
		err, strings.Join(holders, ", "), s.config.AdmissionTimeout)
}
