package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A bare round trip is what the machine can do: two words in a page of shared
// memory, each in a line of its own. The pinger counts in one, and the ponger
// stores what it sees there in the other.
const (
	barePageSize = 4096
	pingWordAt   = 0
	pongWordAt   = 2048
)

// The pinger's word is a count, which wraps, and a bit for the end.
const (
	bareEnd   = 1 << 31
	bareCount = bareEnd - 1
)

// bareSleep bounds each sleep, so that a context can end a wait.
const bareSleep = 100 * time.Millisecond

// createBarePage returns the page for a pinger and its ponger.
func createBarePage() (*os.File, error) {
	fd, err := unix.MemfdCreate("bench-words", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create shared page: %w", err)
	}
	file := os.NewFile(uintptr(fd), "memfd:bench-words")
	if err := file.Truncate(barePageSize); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("create shared page: %w", err)
	}
	return file, nil
}

// withBarePage calls f with the words of the page that this worker was started
// with.
func withBarePage(f func(ping, pong *bareWord) error) error {
	file := os.NewFile(firstFile, "shared page")
	defer file.Close()
	mem, err := unix.Mmap(int(file.Fd()), 0, barePageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map shared page: %w", err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	return f(bareWordAt(mem, pingWordAt), bareWordAt(mem, pongWordAt))
}

// A barePinger is a pinger without records: the count is all that is checked.
type barePinger struct {
	Waiting          Waiting
	WarmUp, Duration time.Duration
	Fault            Fault
}

func (p *barePinger) run(ctx context.Context, w *workerContext) (res result, err error) {
	err = withBarePage(func(ping, pong *bareWord) error {
		if err := w.begin(); err != nil {
			return err
		}
		var timer spanTimer
		timer.begin()
		trips := startTrips(p.WarmUp, p.Duration)
		if err := p.ping(ctx, ping, pong, trips); err != nil {
			return err
		}
		res, err = trips.result(timer.end())
		return err
	})
	return res, err
}

func (p *barePinger) ping(ctx context.Context, ping, pong *bareWord, trips *trips) error {
	parks := p.Waiting == Parked
	for n, goOn := uint32(1), true; goOn; n = (n + 1) & bareCount {
		value := n
		switch {
		case n == faultAfter && p.Fault == FlipByte:
			value ^= 0x10
		case n == faultAfter && p.Fault == DieProducing:
			die()
		}
		trips.begin()
		ping.set(value, parks)
		got, err := pong.await(ctx, (n-1)&bareCount, parks)
		if err != nil {
			return err
		}
		goOn = trips.returned()
		if got != n {
			return fmt.Errorf("answer %d is %d: %w", n, got, ErrContent)
		}
	}
	ping.set(bareEnd, parks)
	return nil
}

// A barePonger answers a barePinger.
type barePonger struct {
	Waiting Waiting
	Fault   Fault
}

func (p *barePonger) run(ctx context.Context, w *workerContext) (res result, err error) {
	err = withBarePage(func(ping, pong *bareWord) error {
		if err := w.begin(); err != nil {
			return err
		}
		if p.Fault == DieConsuming {
			die()
		}
		var timer spanTimer
		timer.begin()
		res.Records, err = p.pong(ctx, ping, pong)
		res.Span = timer.end()
		return err
	})
	return res, err
}

func (p *barePonger) pong(ctx context.Context, ping, pong *bareWord) (answered int64, err error) {
	parks := p.Waiting == Parked
	for n := uint32(1); ; n = (n + 1) & bareCount {
		got, err := ping.await(ctx, (n-1)&bareCount, parks)
		if err != nil {
			return answered, err
		}
		if got == bareEnd {
			return answered, nil
		}
		if got != n {
			return answered, fmt.Errorf("record %d is number %d: %w", n, got, ErrContent)
		}
		pong.set(n, parks)
		answered++
	}
}

// set stores a value and wakes the other side if that parks.
func (w *bareWord) set(value uint32, parks bool) {
	w.store(value)
	if parks {
		w.wake()
	}
}

// await returns what the other side stores in place of old.
func (w *bareWord) await(ctx context.Context, old uint32, parks bool) (uint32, error) {
	for looks := 1; ; looks++ {
		if parks {
			w.sleep(old, bareSleep)
		}
		if v := w.load(); v != old {
			return v, nil
		}
		if (parks || looks%spinsPerLook == 0) && ctx.Err() != nil {
			return 0, fmt.Errorf("wait for the other side: %w", context.Cause(ctx))
		}
	}
}
