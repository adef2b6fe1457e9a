package ipc

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/memseg"
)

// HugePages says whether the memory of partitions may lie in huge pages.
type HugePages uint8

const (
	// AutoHugePages uses them where the kernel has them to give.
	AutoHugePages HugePages = iota
	// NeverHugePages does without.
	NeverHugePages
)

// hugeRanges says which parts of a region of the size and place of a huge page lie
// in one. That is worth while, and takes no more memory than was granted, once the
// producer has all segments in a part. hostedRegion.mu guards it.
type hugeRanges struct {
	missing []int  // segments in the part that the producer does not have
	huge    []bool // it was put into a huge page, and nothing of it was given back
	queued  bool   // for Server.useHugePages
}

// newHugeRanges returns those of a region no segment of which is with the producer.
func (r *hostedRegion) newHugeRanges() hugeRanges {
	size := memseg.HugePageSize()
	if size == 0 || r.server.config.HugePages == NeverHugePages {
		return hugeRanges{}
	}
	n := int(r.layout.RegionSize() / size)
	h := hugeRanges{missing: make([]int, n), huge: make([]bool, n)}
	for i := range n {
		before := func(offset int64) int64 { // segments that begin before it
			begin, each := r.layout.SegmentOffset(0), int64(r.layout.SegmentSize)
			return min(max(0, (offset-begin+each-1)/each), int64(r.layout.Segments))
		}
		start := int64(i) * size
		h.missing[i] = int(before(start+size) - max(0, before(start+1)-1))
	}
	return h
}

// eachRange calls f for each range that the segment lies in, in part or as a whole.
func (r *hostedRegion) eachRange(segment int, f func(i int)) {
	size := memseg.HugePageSize()
	last := int((r.layout.SegmentOffset(segment+1) - 1) / size)
	for i := int(r.layout.SegmentOffset(segment) / size); i <= last && i < len(r.ranges.missing); i++ {
		f(i)
	}
}

// noteHanded takes note of segments that went to the producer. The lock is held.
func (r *hostedRegion) noteHanded(segments []int) {
	whole := false
	for _, segment := range segments {
		r.eachRange(segment, func(i int) {
			r.ranges.missing[i]--
			whole = whole || r.ranges.missing[i] == 0
		})
	}
	if whole && !r.ranges.queued {
		r.ranges.queued = true
		r.server.queueForHugePages(r)
	}
}

// noteReturned takes note of segments that came back. The lock is held.
func (r *hostedRegion) noteReturned(segments []int) {
	for _, segment := range segments {
		r.eachRange(segment, func(i int) {
			r.ranges.missing[i]++
			r.ranges.huge[i] = false
		})
	}
}

// useHugePages puts what can be into huge pages, and returns the first error. The
// lock is let go in between: a page takes part of a millisecond.
func (r *hostedRegion) useHugePages() (err error) {
	r.mu.Lock()
	r.ranges.queued = false
	r.mu.Unlock()
	for i := range r.ranges.missing {
		failure := r.useHugePage(i)
		if err == nil {
			err = failure
		}
		if errors.Is(err, memseg.ErrNoHugePages) {
			break
		}
	}
	return err
}

func (r *hostedRegion) useHugePage(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ranges.missing[i] > 0 || r.ranges.huge[i] || r.dropped {
		return nil
	}
	err := r.server.collapse(r.memfd, int64(i)*memseg.HugePageSize())
	r.ranges.huge[i] = err == nil
	return err
}

// hugeBytes is how much of the region lies in huge pages. The lock is held.
func (r *hostedRegion) hugeBytes() (bytes int64) {
	for _, huge := range r.ranges.huge {
		if huge {
			bytes += memseg.HugePageSize()
		}
	}
	return bytes
}

// queueForHugePages has useHugePages look at a region. It does not block.
func (s *Server) queueForHugePages(r *hostedRegion) {
	s.mu.Lock()
	if !s.noHugePages {
		s.forHugePages = append(s.forHugePages, r)
	}
	s.mu.Unlock()
	select {
	case s.hugePagesWanted <- struct{}{}:
	default: // it is about to look
	}
}

// While pages are in use elsewhere in the kernel they cannot be put together, so it
// is tried again for a while.
const (
	hugePageTries = 20
	hugePagePause = 10 * time.Millisecond
)

// useHugePages puts the memory of regions into huge pages once their producers have
// taken enough of it. It is not done on the way of a grant, since it takes longer
// than all else that a grant takes. Without them everything works, more slowly.
func (s *Server) useHugePages(ctx context.Context) {
	worked := false
	busy := map[*hostedRegion]int{} // to be tried again, so many times
	for {
		var again <-chan time.Time
		if len(busy) > 0 {
			again = time.After(hugePagePause)
		}
		select {
		case <-s.hugePagesWanted:
		case <-again:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		regions := s.forHugePages
		s.forHugePages = nil
		s.mu.Unlock()
		for _, r := range regions {
			busy[r] = hugePageTries
		}
		for r := range busy {
			err := r.useHugePages()
			if busy[r]--; busy[r] == 0 || !errors.Is(err, unix.EAGAIN) {
				delete(busy, r)
			}
			switch {
			case err == nil:
				worked = true
			case !worked && errors.Is(err, memseg.ErrNoHugePages):
				s.log.Info("the kernel has no huge pages for shared memory, small ones are used", "error", err)
				s.giveUpHugePages()
				return
			case busy[r] == 0:
				s.log.Debug("no huge page", "partition", r.spec.ID, "error", err)
			}
		}
	}
}

func (s *Server) giveUpHugePages() {
	s.mu.Lock()
	s.noHugePages, s.forHugePages = true, nil
	s.mu.Unlock()
}
