package bench

import (
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestProcessIsStartedOnOneCoreAndThisOneKeepsItsOwn(t *testing.T) {
	cores, err := coresToPin()
	if err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	for _, core := range cores[:2] {
		var out strings.Builder
		command := exec.Command("cat", "/proc/self/status")
		command.Stdout = &out
		require.NoError(t, startOnCore(core, command.Start))
		require.NoError(t, command.Wait())
		require.Contains(t, out.String(), "Cpus_allowed_list:\t"+strconv.Itoa(core)+"\n")
	}
	require.NoError(t, unix.SchedGetaffinity(0, &after))
	require.Equal(t, before, after)
}

func TestPinningToACoreThatIsNotThereStartsNothing(t *testing.T) {
	err := startOnCore(maxCores-1, func() error {
		t.Error("it was started")
		return nil
	})
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "pin to core 1023")
}
