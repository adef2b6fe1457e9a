package ipc

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/ipc/controlpb"
)

func TestShortageOfTheKernelDelaysASendAndEndsNothing(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ETOOMANYREFS, unix.EMFILE, unix.ENOBUFS, unix.EAGAIN} {
		a, b := newPair(t)
		var putOff atomic.Int32
		o := NewBoundedOutbox(a, 10, nil, func(err error) {
			assert.ErrorIs(t, err, errno)
			putOff.Add(1)
		})
		defer o.Close()
		left := 3
		o.send = func(packet []byte, fds []int) error {
			if left--; left >= 0 {
				return errno
			}
			return a.sendEncoded(packet, fds)
		}
		require.NoError(t, o.Post(hello(1, 0), newFile(t, "late")))
		msg := &controlpb.ClientMessage{}
		fds, err := b.Receive(msg)
		require.NoError(t, err)
		require.Len(t, fds, 1)
		fds.Close()
		require.EqualValues(t, 3, putOff.Load())
		require.NoError(t, o.Err())
	}
}

func TestShortageThatStaysEndsTheSendAfterABoundedTime(t *testing.T) {
	calls := 0
	err := RetryShortage(nil, nil, 3, func() error { calls++; return unix.ETOOMANYREFS })
	require.ErrorIs(t, err, unix.ETOOMANYREFS)
	require.ErrorContains(t, err, "after 3 attempts")
	require.Equal(t, 3, calls)
	err = RetryShortage(nil, nil, 3, func() error { calls++; return unix.EBADF })
	require.ErrorIs(t, err, unix.EBADF)
	require.Equal(t, 4, calls, "nothing that comes back")
}
