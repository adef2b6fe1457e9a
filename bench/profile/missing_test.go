package profile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/bench/results"
)

func TestWhyIsASentence(t *testing.T) {
	refused := fmt.Errorf("copied_to_user: load: %w", unix.EPERM)
	noTracefs := errors.New("attach to _copy_to_iter: checking trace event ebpf_15b5/_copy_to_iter: neither debugfs nor tracefs are mounted")
	for _, row := range []struct {
		err  error
		want string
	}{
		{refused, "the kernel or a security policy does not allow it"},
		{noTracefs, "tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)"},
		{fmt.Errorf("%w; %w", refused, noTracefs),
			"the kernel or a security policy does not allow it, and tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)"},
		{errors.New("something else"), "something else"},
	} {
		require.Equal(t, row.want, sentence(row.err))
	}
}

func TestWhatIsNotMeasuredIsSaidOnceForAllMeasurements(t *testing.T) {
	f := results.New("audit")
	for i, transport := range []string{"shm", "unix", "tcp"} {
		m := f.Add(results.Settings{Transport: transport, RecordSize: 100}, results.Round{results.RecordsPerS: 1})
		m.Profile = &results.Profile{PayloadBytes: 1 << 20,
			Missing: []results.Missing{{What: "copy functions", Why: fmt.Sprintf("event ebpf_%d", i)}}}
	}
	text := strings.Join(ByRole(f).Lines, "\n")
	require.Equal(t, "not measured: copy functions: event ebpf_0", text)
}
