package ipc

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

func TestReceivedDescriptorsAreTheFilesSentAndCloseOnExec(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	region, doorbell := newFile(t, "region"), newFile(t, "doorbell")
	require.NoError(t, a.Send(hello(1, 0), region, doorbell))
	require.Equal(t, "region", contents(t, region), "descriptors that were sent stay the sender's")
	require.NoError(t, unix.Close(region))
	require.NoError(t, unix.Close(doorbell))

	fds, err := b.Receive(&controlpb.ClientMessage{})
	require.NoError(t, err)
	defer fds.Close()
	require.NoError(t, fds.Expect(2, "hello"))
	require.Equal(t, "region", contents(t, fds[0]))
	require.Equal(t, "doorbell", contents(t, fds[1]))
	for _, fd := range fds {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
		require.Equal(t, unix.FD_CLOEXEC, flags)
	}
}

func TestDescriptorsBelongToTheirMessage(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	first, third := newFile(t, "first"), newFile(t, "third")
	require.NoError(t, a.Send(hello(1, 0), first))
	require.NoError(t, a.Send(hello(2, 0)))
	require.NoError(t, a.Send(hello(3, 0), third))
	require.NoError(t, unix.Close(first))
	require.NoError(t, unix.Close(third))
	for id, want := range []string{"first", "", "third"} {
		msg := &controlpb.ClientMessage{}
		fds, err := b.Receive(msg)
		require.NoError(t, err)
		require.Equal(t, uint64(id+1), msg.GetRequestId())
		if want == "" {
			require.Empty(t, fds)
			continue
		}
		require.Len(t, fds, 1)
		require.Equal(t, want, contents(t, fds[0]))
		fds.Close()
	}
}

func TestMessageCarriesUpTo253Descriptors(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	files := newFiles(t, MaxFDs+1)

	err := a.Send(hello(1, 0), files...)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	require.EqualError(t, err,
		"send ClientMessage.hello: got 254 file descriptors, limit 253 a message: invalid argument")

	require.NoError(t, a.Send(hello(2, 0), files[:MaxFDs]...), "the connection remains usable")
	msg := &controlpb.ClientMessage{}
	fds, err := b.Receive(msg)
	require.NoError(t, err)
	defer fds.Close()
	require.Equal(t, uint64(2), msg.GetRequestId(), "nothing was sent of the message that was refused")
	require.NoError(t, fds.Expect(MaxFDs, "hello"))
	require.Equal(t, "shared", contents(t, fds[MaxFDs-1]))
}

func TestDescriptorsLostForWantOfSlotsCostOneMessage(t *testing.T) {
	for _, slots := range []uint64{0, 1, 7} {
		t.Run(fmt.Sprintf("%d of 8 fit", slots), func(t *testing.T) {
			leaktest.Check(t)
			a, b := newPair(t)
			files := newFiles(t, 8)
			before := leaktest.Descriptors()
			require.NoError(t, a.Send(hello(1, 0), files...))

			got := &controlpb.ClientMessage{}
			restore := leaktest.LeaveDescriptors(t, slots)
			fds, err := b.Receive(got)
			restore()
			require.ErrorIs(t, err, ErrDescriptorsLost)
			require.ErrorIs(t, err, unix.EMFILE)
			require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
			require.ErrorContains(t, err, fmt.Sprintf("got only %d of its descriptors", slots))
			require.ErrorContains(t, err, "RLIMIT_NOFILE")
			require.EqualValues(t, 1, got.GetRequestId(), "the message itself is whole")
			require.Empty(t, fds)
			require.Empty(t, before.Changes(), "descriptors of a cut packet")

			require.NoError(t, a.Send(hello(2, 0), files...))
			fds, err = b.Receive(got)
			require.NoError(t, err)
			require.Len(t, fds, 8)
			fds.Close()
		})
	}
}

func TestRefusedDescriptorsAreNeverOpened(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	b.RefuseDescriptors()
	require.NoError(t, a.Send(hello(1, 0)))
	require.NoError(t, a.Send(hello(2, 0), newFiles(t, MaxFDs)...))
	_, err := b.Receive(&controlpb.ClientMessage{})
	require.NoError(t, err)
	restore := leaktest.LeaveDescriptors(t, 0)
	defer restore()
	_, err = b.Receive(&controlpb.ClientMessage{})
	require.ErrorIs(t, err, shuffle.ErrProtocol)
	require.ErrorContains(t, err, "got file descriptors beside a packet, want none")
	require.NotErrorIs(t, err, ErrDescriptorsLost)
}
