package ipc

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc/controlpb"
)

func TestSendToAPeerThatDoesNotReadTimesOutAndSendsNothing(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	a.SetSendTimeout(30 * time.Millisecond)
	sent := fillSocket(t, a)
	err := a.Send(hello(sent+1, 10_000))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.ErrorContains(t, err, "the peer does not read")
	require.Greater(t, sent, uint64(2))

	msg := &controlpb.ClientMessage{}
	for id := uint64(1); id <= sent; id++ {
		_, err := b.Receive(msg)
		require.NoError(t, err)
		require.Equal(t, id, msg.GetRequestId())
	}
	a.SetSendTimeout(testPatience)
	require.NoError(t, a.Send(hello(sent+1, 0)), "the connection remains usable")
	_, err = b.Receive(msg)
	require.NoError(t, err)
	require.Equal(t, sent+1, msg.GetRequestId())
}

func TestWaitingBehindABlockedSenderTimesOutToo(t *testing.T) {
	leaktest.Check(t)
	a, _ := newPair(t)
	require.NoError(t, a.acquireSend(time.Time{}))
	a.SetSendTimeout(10 * time.Millisecond)
	require.ErrorIs(t, a.Send(hello(1, 0)), os.ErrDeadlineExceeded)
	a.releaseSend()
	a.SetSendTimeout(testPatience)
	require.NoError(t, a.Send(hello(1, 0)))
}

func TestConcurrentSendersDoNotMixMessages(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	const senders, each = 8, 200
	file := newFiles(t, 1)
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				var fds []int
				if i%10 == 0 {
					fds = file
				}
				if err := a.Send(hello(uint64(s*each+i), i*13), fds...); err != nil {
					t.Errorf("sender %d: %v", s, err)
					return
				}
			}
		})
	}
	next := make([]int, senders)
	msg := &controlpb.ClientMessage{}
	for range senders * each {
		fds, err := b.Receive(msg)
		require.NoError(t, err)
		s, i := int(msg.GetRequestId())/each, int(msg.GetRequestId())%each
		require.Equal(t, next[s], i, "messages of one sender keep their order")
		next[s]++
		requireMessage(t, hello(uint64(s*each+i), i*13), msg)
		require.Equal(t, i%10 == 0, len(fds) == 1)
		fds.Close()
	}
	wg.Wait()
}

func TestSendBufferIsRaisedToHoldTheLongestMessage(t *testing.T) {
	leaktest.Check(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[1])
	require.NoError(t, unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 8192))
	c, err := NewConnFD(fds[0])
	require.NoError(t, err)
	require.NoError(t, c.Send(helloOfSize(t, MaxMessageSize)))
	require.NoError(t, c.Close())
}
