package daemon

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// What package memseg calls a want of memory is told as the limit that it comes from.
func TestShortageIsToldAsTheLimitThatItComesFrom(t *testing.T) {
	for errno, want := range map[unix.Errno]error{
		unix.EFBIG: shuffle.ErrQuotaExceeded, unix.EMFILE: shuffle.ErrQuotaExceeded,
		unix.ENFILE: shuffle.ErrQuotaExceeded,
		unix.ENOMEM: shuffle.ErrNoMemory, unix.ENOSPC: shuffle.ErrNoMemory,
	} {
		err := describeShortage(fmt.Errorf("create: %w: %w", errno, memseg.ErrNoMemory))
		require.ErrorIs(t, err, want, errno.Error())
		require.ErrorIs(t, err, errno)
		if errno == unix.EFBIG {
			require.ErrorContains(t, err, "limit RLIMIT_FSIZE of the daemon")
		}
	}
	require.ErrorIs(t, describeShortage(unix.ENOMEM), shuffle.ErrNoMemory)
}
