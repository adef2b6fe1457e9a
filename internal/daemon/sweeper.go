package daemon

import (
	"context"
	"time"
)

const (
	// sweepStep regions are looked at in one go, with stepPause in between: 20,000 a
	// second, which takes a few hundredths of a core.
	sweepStep = 500
	stepPause = 25 * time.Millisecond
	// hotPause is how often that is looked at whose user takes memory that it was not
	// given, hotLooks for how long after the last time.
	hotPause = 20 * time.Millisecond
	hotLooks = 50
	// endLooks is how often what has ended is looked at in that pause, twice at least:
	// what its producer was about to publish at its end is seen by the second look.
	endLooks = 3
)

// A sweeper is the goroutine that looks at regions and at what was left behind.
type sweeper struct {
	server  *Server
	pause   time.Duration         // between rounds
	pending []*hostedRegion       // of this round
	next    time.Time             // when the next round begins
	hot     map[*hostedRegion]int // how often they are looked at again
}

// sweepMemory keeps the books until ctx ends, with a pause between two looks at all
// regions.
func (s *Server) sweepMemory(ctx context.Context, pause time.Duration) {
	w := sweeper{server: s, pause: pause, hot: make(map[*hostedRegion]int)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.books.wake:
		case <-ctx.Done():
			return
		}
		timer.Reset(w.step(time.Now()))
	}
}

// step looks at what is due and returns how long nothing is.
func (w *sweeper) step(now time.Time) (pause time.Duration) {
	w.lookAtHot()
	w.server.books.mu.Lock()
	ended := w.server.books.ended
	w.server.books.ended = nil
	w.server.books.mu.Unlock()
	for _, r := range ended {
		w.server.lookAtRegion(r)
		w.hot[r] = max(w.hot[r], endLooks)
	}
	if len(w.pending) == 0 && !now.Before(w.next) {
		w.pending = w.server.liveRegions()
		w.next = now.Add(w.pause)
		w.server.earlier.lookAgain()
	}
	n := min(len(w.pending), sweepStep)
	for _, r := range w.pending[:n] {
		if _, isHot := w.hot[r]; !isHot && w.server.lookAtRegion(r) {
			w.hot[r] = hotLooks
		}
	}
	w.pending = w.pending[n:]
	pause = max(w.next.Sub(now), 0)
	if len(w.pending) > 0 {
		pause = stepPause
	}
	if len(w.hot) > 0 {
		pause = min(pause, hotPause)
	}
	return max(min(pause, w.lookAtLeft(now)), time.Millisecond)
}

func (w *sweeper) lookAtHot() {
	for r, looks := range w.hot {
		switch {
		case w.server.lookAtRegion(r):
			w.hot[r] = hotLooks
		case looks == 0:
			delete(w.hot, r)
		default:
			w.hot[r]--
		}
	}
}

// lookAtLeft looks at what was left behind, and returns until when nothing is due.
func (w *sweeper) lookAtLeft(now time.Time) (pause time.Duration) {
	b := &w.server.books
	b.mu.Lock()
	var due []*leftBehind
	pause = leftLastPause
	for l := range b.left {
		if wait := l.due.Sub(now); wait > 0 {
			pause = min(pause, wait)
		} else {
			due = append(due, l)
		}
	}
	b.mu.Unlock()
	for _, l := range due {
		excess, fresh, settled := b.again(l, now)
		if settled {
			b.mu.Lock()
			delete(b.left, l)
			b.mu.Unlock()
		} else {
			pause = min(pause, l.pause)
		}
		if fresh > 0 {
			b.server.throttle.Warn(b.server.log, "memory of what was given up is used again, it is taken away",
				"object", l.name, "uid", l.uid, "pid", l.pid, "bytes", fresh)
		}
		if fresh > 0 || excess != l.booked {
			b.book(func(t *bookTotals) {
				t.left += excess - l.booked
				t.taken += uint64(fresh)
			})
			l.booked = excess
		}
	}
	return pause
}

// liveRegions returns the regions that are there.
func (s *Server) liveRegions() []*hostedRegion {
	s.mu.Lock()
	defer s.mu.Unlock()
	regions := make([]*hostedRegion, 0, len(s.regions))
	for _, r := range s.regions {
		regions = append(regions, r)
	}
	return regions
}
