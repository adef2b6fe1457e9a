package torture

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A memoryCgroup is a memory cgroup of its own for one process and its children.
type memoryCgroup struct{ dir string }

// newMemoryCgroup makes one with a limit in bytes, of version 1 or 2, or skips the
// test where this process may not.
func newMemoryCgroup(t *testing.T, limit int64) *memoryCgroup {
	t.Helper()
	var problems []string
	for _, hierarchy := range []struct{ mount, limitFile string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"},
	} {
		dir, err := os.MkdirTemp(hierarchy.mount, "shuffled-torture-")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, hierarchy.limitFile), []byte(strconv.FormatInt(limit, 10)), 0)
			if err == nil {
				t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
				return &memoryCgroup{dir}
			}
			_ = os.Remove(dir)
		}
		problems = append(problems, err.Error())
	}
	t.Skipf("no memory cgroup can be made: %s", strings.Join(problems, "; "))
	return nil
}

// enter is a command that executes its arguments within the cgroup.
func (g *memoryCgroup) enter() []string {
	return []string{"/bin/sh", "-c", `echo $$ > ` + filepath.Join(g.dir, "cgroup.procs") + ` && exec "$0" "$@"`}
}

// shmem is how much shared memory the kernel charges to the cgroup, in bytes, at the
// moment.
func (g *memoryCgroup) shmem(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, "memory.stat"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "shmem "); ok {
			n, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			return n
		}
	}
	require.Fail(t, "memory.stat has no shmem", string(text))
	return 0
}

// kills is how often the kernel has killed a process of the cgroup for want of memory.
func (g *memoryCgroup) kills(t *testing.T) string {
	t.Helper()
	for _, file := range []string{"memory.oom_control", "memory.events"} {
		text, err := os.ReadFile(filepath.Join(g.dir, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
				return value
			}
		}
	}
	require.Fail(t, "the cgroup does not count kills")
	return ""
}
