package ipc

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// How often a send that the kernel has no means for at the moment is repeated,
// and how long between two attempts at most. Others' descriptors that are under
// way, or a full table of files, are no reason to end a client.
const (
	sendAttempts   = 400
	firstSendPause = time.Millisecond
	longSendPause  = 100 * time.Millisecond
)

// isShortage reports whether an error is of something that comes back.
func isShortage(err error) bool {
	for _, errno := range []unix.Errno{unix.ETOOMANYREFS, unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EAGAIN} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// sendDelays counts attempts that the kernel put off.
type sendDelays struct {
	count atomic.Uint64
	// report is called with each; it may be nil.
	report func(err error)
}

func (d *sendDelays) add(err error) {
	if d == nil {
		return
	}
	d.count.Add(1)
	if d.report != nil {
		d.report(err)
	}
}

// retryShortage repeats f while it fails for want of something that comes back,
// for a time, or until ended is closed.
func retryShortage(d *sendDelays, ended <-chan struct{}, attempts int, f func() error) error {
	pause := firstSendPause
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil || !isShortage(err) || attempt == attempts {
			if attempt > 1 && err != nil {
				err = fmt.Errorf("%w (after %d attempts)", err, attempt)
			}
			return err
		}
		d.add(err)
		if !sleep(pause, ended) {
			return err
		}
		pause = min(2*pause, longSendPause)
	}
}

// sleep returns true after a pause, false when ended is closed before.
func sleep(pause time.Duration, ended <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ended:
		return false
	}
}

// sendPatiently sends the packet of a parcel.
func (o *Outbox) sendPatiently(p parcel) error {
	return retryShortage(o.delays, o.ended, sendAttempts, func() error { return o.send(p.packet, p.fds) })
}
