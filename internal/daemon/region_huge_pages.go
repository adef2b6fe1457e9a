package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/memseg"
	"shuffled/shuffle"
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
	layout  *memseg.PartitionLayout
	all     []int  // segments in the part
	missing []int  // of them, those that the producer does not have
	huge    []bool // it was put into a huge page, and nothing of it was given back
	loose   []bool // something was: the kernel may not take the page apart at once
	queued  bool   // for Server.useHugePages
}

// looseBytes is how much memory may stay though it was given back.
func (h *hugeRanges) looseBytes() (bytes int64) {
	for _, loose := range h.loose {
		if loose {
			bytes += memseg.HugePageSize()
		}
	}
	return bytes
}

// settle takes note that the kernel keeps nothing that was given back: a part that was
// given back as a whole is in no huge page any more.
func (h *hugeRanges) settle() {
	for i := range h.loose {
		h.loose[i] = h.loose[i] && h.missing[i] < h.all[i]
	}
}

// newHugeRanges returns those of a region no segment of which is with the producer; none
// if there are no huge pages, or no room for one.
func newHugeRanges(l *memseg.PartitionLayout) hugeRanges {
	size := memseg.HugePageSize()
	if size == 0 {
		return hugeRanges{}
	}
	n := int(l.RegionSize() / size)
	h := hugeRanges{layout: l, missing: make([]int, n), huge: make([]bool, n), loose: make([]bool, n)}
	for i := range n {
		before := func(offset int64) int64 { // segments that begin before it
			begin, each := l.SegmentOffset(0), int64(l.SegmentSize)
			return min(max(0, (offset-begin+each-1)/each), int64(l.Segments))
		}
		start := int64(i) * size
		h.missing[i] = int(before(start+size) - max(0, before(start+1)-1))
	}
	h.all = slices.Clone(h.missing)
	return h
}

// eachOf calls f for each range that the segment lies in, in part or as a whole.
func (h *hugeRanges) eachOf(segment int, f func(i int)) {
	if len(h.missing) == 0 {
		return
	}
	size := memseg.HugePageSize()
	last := int((h.layout.SegmentOffset(segment+1) - 1) / size)
	for i := int(h.layout.SegmentOffset(segment) / size); i <= last && i < len(h.missing); i++ {
		f(i)
	}
}

// handedOver takes note of segments that went to the producer, and reports whether
// useHugePages is to look at the region for the first time since.
func (h *hugeRanges) handedOver(segments []int) (worthALook bool) {
	for _, segment := range segments {
		h.eachOf(segment, func(i int) {
			h.missing[i]--
			worthALook = worthALook || h.missing[i] == 0
		})
	}
	worthALook = worthALook && !h.queued
	h.queued = h.queued || worthALook
	return worthALook
}

// tookBack takes note of segments that came back.
func (h *hugeRanges) tookBack(segments []int) {
	for _, segment := range segments {
		h.eachOf(segment, func(i int) {
			h.missing[i]++
			h.loose[i] = h.loose[i] || h.huge[i]
			h.huge[i] = false
		})
	}
}

// bytes is how much of the region lies in huge pages.
func (h *hugeRanges) bytes() (bytes int64) {
	for _, huge := range h.huge {
		if huge {
			bytes += memseg.HugePageSize()
		}
	}
	return bytes
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
	err := r.server.collapse(r.memory.memfd, int64(i)*memseg.HugePageSize())
	if err == nil {
		r.ranges.huge[i], r.ranges.loose[i] = true, false
	}
	return err
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

// While a huge page is made, whoever uses that memory waits, for milliseconds if the
// daemon has to wait for a core in the middle of it. So it is done for partitions
// that move enough for it to be worth while, which the daemon looks for less and
// less often.
const (
	hugePageRate  = 1 << 30 // bytes a second
	firstHugeLook = 20 * time.Millisecond
	lastHugeLook  = time.Second
	// hugePageTries is how often it is tried while the kernel uses a page elsewhere.
	hugePageTries = 20
)

// A hugeCandidate is a region that could have more huge pages.
type hugeCandidate struct {
	moved  uint64 // bytes, at the last look
	looked time.Time
	pause  time.Duration // until the next look
	tries  int           // that are left
}

// useHugePages puts the memory of regions into huge pages once their producers have
// taken enough of it and are busy. Without them everything works, more slowly.
func (s *Server) useHugePages(ctx context.Context) {
	candidates := map[*hostedRegion]*hugeCandidate{}
	worked := false
	for {
		pause := lastHugeLook
		for _, c := range candidates {
			pause = min(pause, time.Until(c.looked.Add(c.pause)))
		}
		var due <-chan time.Time
		if len(candidates) > 0 {
			due = time.After(pause)
		}
		select {
		case <-s.hugePagesWanted:
			s.mu.Lock()
			regions := s.forHugePages
			s.forHugePages = nil
			s.mu.Unlock()
			for _, r := range regions {
				moved, _ := r.moved()
				candidates[r] = &hugeCandidate{moved: moved, looked: time.Now(), pause: firstHugeLook,
					tries: hugePageTries}
			}
		case <-due:
		case <-ctx.Done():
			return
		}
		for r, c := range candidates {
			done, err := s.lookAt(r, c)
			switch {
			case !worked && errors.Is(err, memseg.ErrNoHugePages):
				s.log.Info("the kernel has no huge pages for shared memory, small ones are used", "error", err)
				s.giveUpHugePages()
				return
			case done && err != nil:
				s.log.Debug("no huge page", "partition", r.spec.ID, "error", err)
			case done:
				worked = true
			}
			if done {
				delete(candidates, r)
			}
		}
	}
}

// lookAt has a candidate use huge pages if its time has come and it is busy, and
// reports whether it is one no longer.
func (s *Server) lookAt(r *hostedRegion, c *hugeCandidate) (done bool, err error) {
	now := time.Now()
	if now.Before(c.looked.Add(c.pause)) {
		return false, nil
	}
	moved, ok := r.moved()
	if !ok {
		return true, shuffle.ErrPartitionReleased
	}
	isBusy := float64(moved-c.moved) >= s.hugePageRate*now.Sub(c.looked).Seconds()
	c.moved, c.looked = moved, now
	if !isBusy {
		c.pause = min(2*c.pause, lastHugeLook)
		return false, nil
	}
	err = r.useHugePages()
	c.tries--
	return !errors.Is(err, unix.EAGAIN) || c.tries == 0, err
}

func (s *Server) giveUpHugePages() {
	s.mu.Lock()
	s.noHugePages, s.forHugePages = true, nil
	s.mu.Unlock()
}

// moved returns how many bytes went through a region, while there is one.
func (r *hostedRegion) moved() (bytes uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped {
		return 0, false
	}
	return r.readStats().bytes, true
}
