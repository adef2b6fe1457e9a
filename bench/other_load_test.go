package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMachineBusyTimeLeavesOutIdleAndWaiting(t *testing.T) {
	stat := filepath.Join(t.TempDir(), "stat")
	require.NoError(t, os.WriteFile(stat, []byte("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1 1 1\n"), 0o600))
	require.Equal(t, 630*time.Millisecond, machineBusy(stat))
	require.Zero(t, machineBusy(filepath.Join(t.TempDir(), "missing")))
}
