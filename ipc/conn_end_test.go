package ipc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

func TestEndOfPeerIsEOFAfterEverythingItSent(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	file := newFiles(t, 1)
	require.NoError(t, a.Send(hello(1, 0)))
	require.NoError(t, a.Send(hello(2, 0), file...))
	require.NoError(t, a.Close())
	for id := range uint64(2) {
		msg := &controlpb.ClientMessage{}
		fds, err := b.Receive(msg)
		require.NoError(t, err)
		require.Equal(t, id+1, msg.GetRequestId())
		fds.Close()
	}
	for range 3 {
		_, err := b.Receive(&controlpb.ClientMessage{})
		require.Equal(t, io.EOF, err)
	}
}

// The kernel reports a reset ahead of the packets that the peer had sent.
func TestPeerThatEndsWithMessagesUnreadIsStillReadToItsEnd(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	require.NoError(t, b.Send(hello(1, 0)), "never read")
	require.NoError(t, a.Send(hello(2, 0)))
	require.NoError(t, a.Close())

	msg := &controlpb.ClientMessage{}
	_, err := b.Receive(msg)
	require.NoError(t, err)
	require.Equal(t, uint64(2), msg.GetRequestId())
	_, err = b.Receive(msg)
	require.Equal(t, io.EOF, err)
}

func TestKilledPeerIsEOF(t *testing.T) {
	for _, unread := range []bool{false, true} {
		t.Run(fmt.Sprintf("unread=%v", unread), func(t *testing.T) {
			leaktest.Check(t)
			c, peer := newRawPair(t)
			file := os.NewFile(uintptr(peer), "peer")
			child := exec.Command("sleep", "600")
			child.ExtraFiles = []*os.File{file}
			require.NoError(t, child.Start())
			require.NoError(t, file.Close())
			if unread {
				require.NoError(t, c.Send(hello(1, 0)))
			}
			received := make(chan error, 1)
			go func() {
				_, err := c.Receive(&controlpb.ClientMessage{})
				received <- err
			}()
			select {
			case err := <-received:
				t.Fatalf("received %v from a living peer", err)
			case <-time.After(20 * time.Millisecond):
			}
			require.NoError(t, child.Process.Kill())
			require.Error(t, child.Wait())
			require.Equal(t, io.EOF, <-received)
		})
	}
}

func TestEmptyPacketIsEndOfPeer(t *testing.T) {
	leaktest.Check(t)
	c, peer := newRawPair(t)
	require.NoError(t, unix.Sendto(peer, nil, 0, nil))
	_, err := c.Receive(&controlpb.ClientMessage{})
	require.Equal(t, io.EOF, err)
}

func TestSendToAnEndedPeerIsEOFAndLeavesWhatItSent(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	require.NoError(t, b.Send(hello(1, 0)), "never read")
	require.NoError(t, a.Send(hello(2, 0)))
	require.NoError(t, a.Close())
	for range 3 {
		err := b.Send(hello(3, 0))
		require.ErrorIs(t, err, io.EOF)
		require.ErrorContains(t, err, "send ClientMessage.hello: the peer has ended")
	}
	msg := &controlpb.ClientMessage{}
	_, err := b.Receive(msg)
	require.NoError(t, err)
	require.Equal(t, uint64(2), msg.GetRequestId())
	_, err = b.Receive(msg)
	require.Equal(t, io.EOF, err)
}

func TestCloseUnblocksReceiveAndSend(t *testing.T) {
	leaktest.Check(t)
	a, _ := newPair(t)
	a.SetSendTimeout(0)
	errs := make(chan error, 2)
	go func() {
		_, err := a.Receive(&controlpb.ClientMessage{})
		errs <- err
	}()
	go func() {
		for {
			if err := a.Send(hello(1, 60_000)); err != nil {
				errs <- err
				return
			}
		}
	}()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, a.Close())
	require.ErrorIs(t, <-errs, shuffle.ErrClosed)
	require.ErrorIs(t, <-errs, shuffle.ErrClosed)
}

func TestCallsAfterCloseReturnErrClosed(t *testing.T) {
	leaktest.Check(t)
	a, _ := newPair(t)
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	require.EqualError(t, a.Send(hello(1, 0)), "send ClientMessage.hello: connection closed")
	_, err := a.Receive(&controlpb.ServerMessage{})
	require.ErrorIs(t, err, shuffle.ErrClosed)
	require.EqualError(t, err, "receive ServerMessage: connection closed")
	_, err = a.Peer()
	require.ErrorIs(t, err, shuffle.ErrClosed)
}
