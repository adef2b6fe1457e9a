package ipc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
	"shuffled/shuffle"
)

func TestFDsCloseWhatWasNotTaken(t *testing.T) {
	leaktest.Check(t)
	fds := FDs{newFile(t, "taken"), newFile(t, "left")}
	left := fds[1]
	taken := fds.Take(0)
	fds.Close()
	fds.Close()
	require.Equal(t, "taken", contents(t, taken))
	_, err := unix.FcntlInt(uintptr(left), unix.F_GETFD, 0)
	require.ErrorIs(t, err, unix.EBADF)
	require.Equal(t, -1, fds.Take(0))
	require.NoError(t, unix.Close(taken))
	FDs(nil).Close()
}

func TestFDsExpectClosesAnotherNumberOfThem(t *testing.T) {
	leaktest.Check(t)
	require.NoError(t, FDs(nil).Expect(0, "Ack"))
	err := FDs(nil).Expect(2, "PartitionCreated")
	require.ErrorIs(t, err, shuffle.ErrProtocol)
	require.EqualError(t, err, "PartitionCreated: got 0 file descriptors, want 2: protocol violation")
	err = FDs{newFile(t, "a"), newFile(t, "b"), newFile(t, "c")}.Expect(2, "PartitionCreated")
	require.EqualError(t, err, "PartitionCreated: got 3 file descriptors, want 2: protocol violation")
}
