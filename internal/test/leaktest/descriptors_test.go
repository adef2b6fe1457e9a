package leaktest

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestChangesAreWhatWasOpenedAndClosed(t *testing.T) {
	first, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	before := Descriptors()
	require.Equal(t, "/dev/null", before[strconv.Itoa(first)])
	require.Empty(t, before.Changes())

	require.NoError(t, unix.Close(first))
	require.Equal(t, []string{"-" + strconv.Itoa(first) + " /dev/null"}, before.Changes())
	second, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.Equal(t, first, second, "the lowest number that is free")
	require.Equal(t, []string{"-" + strconv.Itoa(first) + " /dev/null", "+" + strconv.Itoa(first) + " /dev/zero"},
		before.Changes())
	require.NoError(t, unix.Close(second))
}

func TestNoMoreAreOpenedThanAreLeft(t *testing.T) {
	Check(t)
	restore := LeaveDescriptors(t, 2)
	defer restore()
	for range 2 {
		f, err := os.Open("/dev/null")
		require.NoError(t, err)
		defer f.Close()
	}
	_, err := os.Open("/dev/null")
	require.ErrorIs(t, err, unix.EMFILE)
}
