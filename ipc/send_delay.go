package ipc

import (
	"errors"
	"fmt"
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
	for _, errno := range []unix.Errno{unix.ETOOMANYREFS, unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM,
		unix.EAGAIN} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// RetryShortage repeats f while it fails for want of something that comes back, at most
// so often, or until ended is closed. putOff, if set, is called with each such error.
func RetryShortage(putOff func(err error), ended <-chan struct{}, attempts int, f func() error) error {
	pause := firstSendPause
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil || !isShortage(err) || attempt == attempts {
			if attempt > 1 && err != nil {
				err = fmt.Errorf("%w (after %d attempts)", err, attempt)
			}
			return err
		}
		if putOff != nil {
			putOff(err)
		}
		if !Sleep(pause, ended) {
			return err
		}
		pause = min(2*pause, longSendPause)
	}
}

// Sleep returns true after a pause, false when ended is closed before.
func Sleep(pause time.Duration, ended <-chan struct{}) bool {
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
	return RetryShortage(o.putOff, o.ended, sendAttempts, func() error { return o.send(p.packet, p.fds) })
}
