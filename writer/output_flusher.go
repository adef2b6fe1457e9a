package writer

import (
	"fmt"
	"sync/atomic"
	"time"
)

// An outputFlusher wakes consumers at an interval, so that a record never waits
// longer than that for its buffer to fill.
type outputFlusher struct {
	quit, done chan struct{}
	failure    atomic.Pointer[error]
}

func startFlusher(interval time.Duration, flush func() error) *outputFlusher {
	f := &outputFlusher{quit: make(chan struct{}), done: make(chan struct{})}
	go f.run(interval, flush)
	return f
}

func (f *outputFlusher) run(interval time.Duration, flush func() error) {
	defer close(f.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-f.quit:
			return
		case <-ticker.C:
			if err := flush(); err != nil {
				err = fmt.Errorf("output flusher: %w", err)
				f.failure.Store(&err)
				return
			}
		}
	}
}

// err returns why the flusher has ended by itself.
func (f *outputFlusher) err() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// stop ends the flusher and waits for it.
func (f *outputFlusher) stop() {
	close(f.quit)
	<-f.done
}
