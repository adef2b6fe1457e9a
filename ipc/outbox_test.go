package ipc

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// blockOutbox fills the peer's socket and posts a message, which the sending goroutine
// keeps. It returns the number of messages that the peer will receive.
func blockOutbox(t *testing.T, o *Outbox) uint64 {
	t.Helper()
	posted := fillSocket(t, o.conn) + 1
	require.NoError(t, o.Post(hello(posted, 0)))
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.queue) == 0
	}, testPatience, time.Millisecond)
	return posted
}

func TestOutboxSendsInOrderAndClosesDescriptorsAfterSending(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	o := NewOutbox(a, 1000)
	const messages = 300
	received := make(chan error, 1)
	go func() {
		msg := &controlpb.ClientMessage{}
		for i := range uint64(messages) {
			fds, err := b.Receive(msg)
			if err == nil {
				err = fds.Expect(2, "hello")
			}
			fds.Close()
			if err == nil && msg.GetRequestId() != i {
				err = errors.New("out of order")
			}
			if err != nil {
				received <- err
				return
			}
		}
		received <- nil
	}()
	msg := hello(0, 0)
	for i := range uint64(messages) {
		msg.RequestId = i // the message may be changed after Post
		require.NoError(t, o.Post(msg, newFile(t, "region"), newFile(t, "doorbell")))
	}
	require.NoError(t, <-received)
	require.NoError(t, o.Err())
	o.Close()
	require.ErrorIs(t, o.Err(), shuffle.ErrClosed)
}

func TestOutboxOverflowEndsTheSessionAndSaysSo(t *testing.T) {
	for _, test := range []struct {
		name       string
		limit, len int
		says       string
	}{
		{"messages", 10, 1, "outbox is full, the peer does not read: got message 11, limit 10: quota exceeded"},
		{"bytes", 1000, 100_000, "limit 4194304: quota exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			leaktest.Check(t)
			a, _ := newPair(t)
			files := newFiles(t, 1)
			before := leaktest.Descriptors()
			o := NewOutbox(a, test.limit)
			defer o.Close()
			received := make(chan error, 1)
			go func() {
				_, err := a.Receive(&controlpb.ServerMessage{})
				received <- err
			}()
			blockOutbox(t, o)
			var err error
			for err == nil {
				err = o.Post(hello(1, test.len), dup(t, files[0]))
			}
			require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
			require.ErrorContains(t, err, "post ClientMessage.hello: outbox is full")
			require.ErrorContains(t, err, test.says)
			require.ErrorIs(t, <-received, shuffle.ErrClosed, "the session's Receive")

			require.ErrorIs(t, o.Err(), shuffle.ErrQuotaExceeded)
			require.ErrorIs(t, o.Post(hello(1, 0), dup(t, files[0])), shuffle.ErrQuotaExceeded,
				"a later Post has the same reason")
			o.Close()
			require.ErrorIs(t, o.Err(), shuffle.ErrQuotaExceeded, "Close keeps the reason")
			require.Len(t, leaktest.Descriptors(), len(before)-1, "descriptors of dropped messages, and the socket")
		})
	}
}

func TestOutboxWaitsForAPeerThatDoesNotReadAsLongAsTheQueueHasRoom(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	a.SetSendTimeout(time.Millisecond) // of Send only
	o := NewOutbox(a, 10)
	defer o.Close()
	posted := blockOutbox(t, o)
	time.Sleep(10 * time.Millisecond) // it would have ended
	require.NoError(t, o.Err())
	msg := &controlpb.ClientMessage{}
	for id := range posted {
		_, err := b.Receive(msg)
		require.NoError(t, err)
		require.Equal(t, id+1, msg.GetRequestId())
	}
}

func TestOutboxLimitsAreOfWhatIsQueuedAtOneTime(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	o := NewOutbox(a, 2)
	defer o.Close()
	msg := &controlpb.ClientMessage{}
	for id := range uint64(2 * maxOutboxBytes / 100_000) {
		require.NoError(t, o.Post(hello(id, 100_000)))
		_, err := b.Receive(msg)
		require.NoError(t, err)
		require.Equal(t, id, msg.GetRequestId())
	}
}

func TestOutboxRefusesAMessageThatCannotBeSentAndGoesOn(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	o := NewOutbox(a, 10)
	defer o.Close()
	err := o.Post(hello(1, MaxMessageSize), newFile(t, "dropped"))
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	require.ErrorContains(t, err, "post ClientMessage.hello")
	require.ErrorIs(t, o.Post(&controlpb.ClientMessage{}), shuffle.ErrInvalidArgument)
	fds := newFiles(t, MaxFDs+1)
	require.ErrorIs(t, o.Post(hello(1, 0), fds...), shuffle.ErrInvalidArgument)
	require.Equal(t, -1, fds[0], "closed by the outbox")

	require.NoError(t, o.Post(hello(2, 0)))
	msg := &controlpb.ClientMessage{}
	_, err = b.Receive(msg)
	require.NoError(t, err)
	require.Equal(t, uint64(2), msg.GetRequestId())
}

func TestOutboxOfAnEndedPeerLeavesWhatThePeerSent(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	require.NoError(t, b.Send(hello(1, 0)))
	require.NoError(t, b.Close())
	o := NewOutbox(a, 10)
	require.NoError(t, o.Post(hello(2, 0), newFile(t, "dropped")))
	<-o.done
	require.ErrorIs(t, o.Err(), io.EOF)
	require.ErrorIs(t, o.Post(hello(3, 0), newFile(t, "dropped")), io.EOF)

	msg := &controlpb.ClientMessage{}
	_, err := a.Receive(msg)
	require.NoError(t, err)
	require.Equal(t, uint64(1), msg.GetRequestId())
	_, err = a.Receive(msg)
	require.Equal(t, io.EOF, err)
	o.Close()
	require.ErrorIs(t, a.Send(hello(4, 0)), shuffle.ErrClosed)
}

func TestOutboxCloseDropsTheQueueOfABlockedPeer(t *testing.T) {
	leaktest.Check(t)
	a, _ := newPair(t)
	o := NewOutbox(a, 100)
	blockOutbox(t, o)
	for range 10 {
		require.NoError(t, o.Post(hello(1, 0), newFile(t, "dropped")))
	}
	o.Close()
	o.Close()
	require.ErrorIs(t, o.Post(hello(1, 0), newFile(t, "dropped")), shuffle.ErrClosed)
}

func TestOutboxShutdownSendsWhatWasPosted(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	o := NewOutbox(a, 1000)
	posted := blockOutbox(t, o)
	require.NoError(t, o.Post(hello(posted+1, 0), newFile(t, "last")))
	done := make(chan error, 1)
	go func() { done <- o.Shutdown(context.Background()) }()
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.draining
	}, testPatience, time.Millisecond)
	require.ErrorIs(t, o.Post(hello(0, 0), newFile(t, "dropped")), shuffle.ErrClosed)

	msg := &controlpb.ClientMessage{}
	for id := range posted {
		_, err := b.Receive(msg)
		require.NoError(t, err)
		require.Equal(t, id+1, msg.GetRequestId())
	}
	fds, err := b.Receive(msg)
	require.NoError(t, err)
	require.NoError(t, fds.Expect(1, "hello"))
	require.Equal(t, "last", contents(t, fds[0]))
	fds.Close()
	require.NoError(t, <-done)
	_, err = b.Receive(msg)
	require.Equal(t, io.EOF, err)
}

func TestOutboxShutdownEndsWithItsContext(t *testing.T) {
	leaktest.Check(t)
	a, _ := newPair(t)
	o := NewOutbox(a, 10)
	blockOutbox(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := o.Shutdown(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "unsent messages")
	require.ErrorIs(t, a.Send(hello(1, 0)), shuffle.ErrClosed)
}

func TestOutboxBuildsAMessageWhenItsTurnHasCome(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	o := NewOutbox(a, 100)
	defer o.Close()
	posted := blockOutbox(t, o)
	built := make(chan struct{})
	require.NoError(t, o.PostFunc(func() (proto.Message, FDs, error) {
		close(built)
		return hello(1000, 0), FDs{newFile(t, "late")}, nil
	}))
	require.NoError(t, o.PostFunc(func() (proto.Message, FDs, error) {
		return nil, FDs{newFile(t, "not sent")}, nil
	}))
	require.NoError(t, o.Post(hello(1001, 0)))
	select {
	case <-built:
		t.Fatal("built while others were ahead of it")
	default:
	}
	msg := &controlpb.ClientMessage{}
	for range posted {
		_, err := b.Receive(msg)
		require.NoError(t, err)
	}
	fds, err := b.Receive(msg)
	require.NoError(t, err)
	require.Equal(t, uint64(1000), msg.GetRequestId())
	require.NoError(t, fds.Expect(1, "hello"))
	require.Equal(t, "late", contents(t, fds[0]))
	fds.Close()
	_, err = b.Receive(msg)
	require.NoError(t, err)
	require.Equal(t, uint64(1001), msg.GetRequestId(), "a nil message sends nothing")
}

func TestOutboxEndsWithTheErrorOfABuildFunction(t *testing.T) {
	for _, test := range []struct {
		name string
		msg  proto.Message
		err  error
		is   error
	}{
		{"its own", nil, os.ErrNotExist, os.ErrNotExist},
		{"io.EOF, which is not the peer's", nil, io.EOF, io.EOF},
		{"a message above the limit", hello(1, MaxMessageSize), nil, shuffle.ErrInvalidArgument},
	} {
		t.Run(test.name, func(t *testing.T) {
			leaktest.Check(t)
			a, b := newPair(t)
			o := NewOutbox(a, 10)
			defer o.Close()
			require.NoError(t, o.PostFunc(func() (proto.Message, FDs, error) {
				return test.msg, FDs{newFile(t, "dropped")}, test.err
			}))
			_, err := b.Receive(&controlpb.ClientMessage{})
			require.Equal(t, io.EOF, err)
			require.ErrorIs(t, o.Err(), test.is)
		})
	}
}

func TestOutboxKeepsNoDescriptorWhenPostsRaceWithItsEnd(t *testing.T) {
	leaktest.Check(t)
	for range 50 {
		a, b, err := Pair()
		require.NoError(t, err)
		o := NewOutbox(a, 4)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for o.Post(hello(1, 0), newFile(t, "any")) == nil {
				}
			})
		}
		wg.Go(func() {
			for range 3 {
				fds, _ := b.Receive(&controlpb.ClientMessage{})
				fds.Close()
			}
			_ = b.Close()
		})
		wg.Wait()
		o.Close()
	}
}
