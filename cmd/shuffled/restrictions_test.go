package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/client"
	"shuffled/internal/test/daemontest"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A restriction is something that a host, a container or a service may forbid or
// lack. A daemon under it works, with a pair of workers under it too, or it refuses to
// start and says what is refused. Workers under it work with a daemon that is not.
type restriction struct {
	name string
	// Apply restricts the process that calls it.
	apply func() error
	// Refused is what the daemon says before it ends; empty if it works.
	refused []string
	// Degraded is what it says that it does without.
	degraded string
	// Root restricts as only root can.
	root bool
	args []string // of the daemon
}

func seccomp(calls ...refusedCall) func() error {
	return func() error { return refuseCalls(calls...) }
}

func onArgument(index int, value uint32) *argument { return &argument{index, value} }

// limited sets a limit, soft and hard.
func limited(resource int, soft, hard uint64) func() error {
	return func() error { return unix.Setrlimit(resource, &unix.Rlimit{Cur: soft, Max: hard}) }
}

// mounted goes on in a mount namespace of its own, changed by f.
func mounted(f func() error) func() error {
	return func() error {
		runtime.LockOSThread() // the namespace is the thread's, and that of what it executes
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return os.NewSyscallError("mount", err)
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
		if err := os.Unsetenv("TEST_RESTRICTION"); err != nil {
			return err
		}
		return os.NewSyscallError("execve", syscall.Exec(self, os.Args, os.Environ()))
	}
}

// hidden puts an empty directory over a path, if there is one.
func hidden(path string) func() error {
	return mounted(func() error {
		if _, err := os.Stat(path); err != nil {
			return nil // it is missing anyway
		}
		return os.NewSyscallError("mount", unix.Mount("none", path, "tmpfs", 0, ""))
	})
}

const (
	unlimited       = ^uint64(0)
	transparentHuge = "/sys/kernel/mm/transparent_hugepage"
	sealCommand     = unix.F_ADD_SEALS
	leaseCommand    = unix.F_SETLEASE
	punch           = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	adviseCollapse  = unix.MADV_COLLAPSE
	adviseDontDump  = unix.MADV_DONTDUMP
	futexWaitv      = 449
)

var restrictions = []restriction{
	{name: "memfd_create EPERM", apply: seccomp(refusedCall{unix.SYS_MEMFD_CREATE, unix.EPERM, nil}),
		refused: []string{"memfd_create", "EPERM", "seccomp"}},
	{name: "memfd_create ENOSYS", apply: seccomp(refusedCall{unix.SYS_MEMFD_CREATE, unix.ENOSYS, nil}),
		refused: []string{"memfd_create", "ENOSYS", "seccomp"}},
	{name: "memfd_create EACCES", apply: seccomp(refusedCall{unix.SYS_MEMFD_CREATE, unix.EACCES, nil}),
		refused: []string{"memfd_create", "EACCES", "vm.memfd_noexec"}},
	{name: "ftruncate", apply: seccomp(refusedCall{unix.SYS_FTRUNCATE, unix.EPERM, nil}),
		refused: []string{"ftruncate", "EPERM"}},
	{name: "fchmod", apply: seccomp(refusedCall{unix.SYS_FCHMOD, unix.EPERM, nil}),
		refused: []string{"fchmod", "EPERM", "seccomp"}},
	{name: "seals", apply: seccomp(refusedCall{unix.SYS_FCNTL, unix.EPERM, onArgument(1, sealCommand)}),
		refused: []string{"fcntl F_ADD_SEALS", "EPERM", "seccomp"}},
	{name: "fallocate EPERM", apply: seccomp(refusedCall{unix.SYS_FALLOCATE, unix.EPERM, nil}),
		refused: []string{"fallocate", "EPERM", "seccomp"}},
	{name: "fallocate ENOSYS", apply: seccomp(refusedCall{unix.SYS_FALLOCATE, unix.ENOSYS, nil}),
		refused: []string{"fallocate", "ENOSYS"}},
	{name: "punching holes", apply: seccomp(refusedCall{unix.SYS_FALLOCATE, unix.EOPNOTSUPP, onArgument(1, punch)}),
		refused: []string{"fallocate FALLOC_FL_PUNCH_HOLE", "ENOTSUP", "kernel"}},
	{name: "out of memory", apply: seccomp(refusedCall{unix.SYS_FALLOCATE, unix.ENOSPC, nil}),
		refused: []string{"fallocate", "ENOSPC", "memory cgroup"}},
	{name: "pwrite", apply: seccomp(refusedCall{unix.SYS_PWRITE64, unix.EPERM, nil}),
		refused: []string{"pwrite", "EPERM"}},
	{name: "socketpair", apply: seccomp(refusedCall{unix.SYS_SOCKETPAIR, unix.EPERM, nil}),
		refused: []string{"socketpair", "EPERM"}},
	{name: "credentials", apply: seccomp(refusedCall{unix.SYS_GETSOCKOPT, unix.EPERM, onArgument(2, unix.SO_PEERCRED)}),
		refused: []string{"getsockopt SO_PEERCRED", "EPERM"}},
	{name: "flock", apply: seccomp(refusedCall{unix.SYS_FLOCK, unix.EPERM, nil}),
		refused: []string{"flock", "operation not permitted"}},
	{name: "no /proc", apply: hidden("/proc"), root: true, refused: []string{"open /proc/self/fd", "ENOENT",
		"/proc is not mounted"}},
	{name: "files of a MiB", apply: limited(unix.RLIMIT_FSIZE, 1<<20, 1<<20),
		refused: []string{"ftruncate", "EFBIG", "RLIMIT_FSIZE is 1048576 bytes"}},

	{name: "files of a MiB, soft", apply: limited(unix.RLIMIT_FSIZE, 1<<20, unlimited), root: true},
	{name: "futex_waitv", apply: seccomp(refusedCall{futexWaitv, unix.ENOSYS, nil}), degraded: "no_futex_waitv"},
	{name: "leases", apply: seccomp(refusedCall{unix.SYS_FCNTL, unix.EPERM, onArgument(1, leaseCommand)}),
		degraded: "no_leases"},
	{name: "madvise", apply: seccomp(refusedCall{unix.SYS_MADVISE, unix.EPERM, onArgument(2, adviseCollapse)},
		refusedCall{unix.SYS_MADVISE, unix.EINVAL, onArgument(2, adviseDontDump)})},
	{name: "limits cannot be raised", apply: seccomp(refusedCall{unix.SYS_PRLIMIT64, unix.EPERM, nil})},
	{name: "close_range", apply: seccomp(refusedCall{unix.SYS_CLOSE_RANGE, unix.ENOSYS, nil})},
	{name: "1024 descriptors", apply: limited(unix.RLIMIT_NOFILE, 1024, 1024)},
	{name: "256 descriptors", apply: limited(unix.RLIMIT_NOFILE, 256, 256), degraded: "few_descriptors"},
	{name: "no locked memory", apply: limited(unix.RLIMIT_MEMLOCK, 0, 0)},
	{name: "core dumps", apply: limited(unix.RLIMIT_CORE, unlimited, unlimited), root: true},
	{name: "no huge pages", apply: hidden(transparentHuge), root: true, degraded: "no_huge_pages"},
	{name: "no huge pages, not wanted", apply: hidden(transparentHuge), root: true,
		args: []string{"--huge-pages", "never"}},
	{name: "no /sys", apply: hidden("/sys"), root: true, degraded: "no_huge_pages"},
	{name: "no /dev", apply: hidden("/dev"), root: true},
	{name: "read-only root", root: true, apply: mounted(func() error {
		dir := os.Getenv("TEST_WRITABLE")
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return os.NewSyscallError("mount", err)
		}
		return os.NewSyscallError("mount", unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	})},
}

// restrict applies what TEST_RESTRICTION names, in a process of this test.
func restrict() {
	name := os.Getenv("TEST_RESTRICTION")
	if name == "" {
		return
	}
	for _, r := range restrictions {
		if r.name == name {
			if err := r.apply(); err != nil {
				fmt.Fprintln(os.Stderr, "cannot restrict:", err)
				os.Exit(exitNotRestricted)
			}
			return
		}
	}
	panic("no restriction " + name)
}

// exitNotRestricted is the exit code of a process that may not restrict itself.
const exitNotRestricted = 99

// runWorker is the main function of a worker, which produces or consumes.
func runWorker(side string) error {
	ctx, cancel := context.WithTimeout(context.Background(), daemontest.Patience)
	defer cancel()
	c, err := client.Dial(ctx, client.WithSocket(os.Getenv("TEST_SOCKET")))
	if err != nil {
		return err
	}
	defer c.Close()
	const records, size = 5000, 1000
	id := shuffle.NamedPartitionID("restricted")
	if side == "produce" {
		p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 1})
		if err != nil {
			return err
		}
		w, err := writer.New(p, shuffle.Bytes{}, writer.Rebalance[[]byte]())
		if err != nil {
			return err
		}
		record := make([]byte, size)
		for i := range records {
			record[i%size]++
			if err := w.Emit(ctx, record); err != nil {
				return err
			}
		}
		if err := w.Finish(ctx); err != nil {
			return err
		}
		return w.Close()
	}
	gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}}})
	if err != nil {
		return err
	}
	n := 0
	want := make([]byte, size)
	for rec, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
		if err != nil {
			return err
		}
		want[n%size]++
		if string(rec) != string(want) {
			return fmt.Errorf("record %d is not what was written", n)
		}
		n++
	}
	if n != records {
		return fmt.Errorf("got %d records, want %d", n, records)
	}
	return gate.Close()
}

// runWorkers runs a producer and a consumer, and requires that both succeed.
func runWorkers(t *testing.T, socket string, env ...string) {
	t.Helper()
	env = append(env, "TEST_SOCKET="+socket)
	consumed := make(chan daemontest.Result, 1)
	go func() { consumed <- daemontest.Execute(t, append(env, "TEST_WORKER=consume")) }()
	produced := daemontest.Execute(t, append(env[:len(env):len(env)], "TEST_WORKER=produce"))
	for _, got := range []daemontest.Result{produced, <-consumed} {
		got.Stderr = ownLines(got.Stderr)
		require.Equal(t, daemontest.Result{}, got)
	}
}

// ownLines drops the lines of the race detector, which misses /proc too.
func ownLines(text string) string {
	var own strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "==WARNING: reading executable name failed") {
			own.WriteString(line)
		}
	}
	return own.String()
}

func TestRestrictedHostsWorkOrAreRefusedByName(t *testing.T) {
	for _, r := range restrictions {
		t.Run(r.name, func(t *testing.T) {
			if r.root && isNotRoot() {
				t.Skip("only root can restrict a process so")
			}
			socket := daemontest.SocketPath(t)
			env := []string{"TEST_RESTRICTION=" + r.name, "TEST_WRITABLE=" + filepath.Dir(socket)}
			d, started := daemontest.TryStart(t, daemontest.Options{Env: append(env, asProgram), Socket: socket,
				Args: r.args})
			if !started && d.Wait() == exitNotRestricted {
				t.Skipf("this host cannot be restricted so: %s", d.LogText())
			}
			if len(r.refused) > 0 {
				require.Equal(t, exitError, d.Wait(), d.LogText())
				for _, text := range r.refused {
					require.Contains(t, d.LogText(), text)
				}
				require.Equal(t, 1, strings.Count(ownLines(d.LogText()), "msg:"), "it says that and nothing else: %s",
					d.LogText())
				require.NoFileExists(t, socket)
				d = start(t) // for workers alone
				socket = d.Socket
			} else {
				require.True(t, started, d.LogText())
				status, _ := d.Get("/readyz")
				require.Equal(t, http.StatusOK, status)
			}
			if r.degraded != "" {
				require.Equal(t, 1.0, d.Metrics()[`shuffled_degraded{reason="`+r.degraded+`"}`])
			}
			runWorkers(t, socket, env...)
			require.Equal(t, 1.0, d.Metrics()["shuffled_partitions_created_total"])
			d.Signal(unix.SIGTERM)
			require.Zero(t, d.Wait(), d.LogText())
		})
	}
}

func TestCheckSaysWhatIsRefused(t *testing.T) {
	ok := daemontest.Execute(t, []string{asProgram}, "check", "--memory", "64MiB")
	require.Equal(t, exitOK, ok.Code, ok)
	require.Contains(t, ok.Stdout, "ok        send a message with a descriptor over a socket\n")
	require.NotContains(t, ok.Stdout, "refused")

	refused := daemontest.Execute(t, []string{asProgram, "TEST_RESTRICTION=punching holes"}, "check", "--memory",
		"64MiB")
	if refused.Code == exitNotRestricted {
		t.Skipf("this host cannot be restricted so: %s", refused.Stderr)
	}
	require.Equal(t, exitError, refused.Code)
	require.Contains(t, refused.Stdout, "ok        back a page of it with memory\n")
	require.Contains(t, refused.Stdout, "refused   give the page back: ")
	require.NotContains(t, refused.Stdout, "seal its seals")

	strict := daemontest.Execute(t, []string{asProgram, "TEST_RESTRICTION=punching holes"}, "check", "--memory",
		"64MiB", "--isolation", "strict")
	require.Equal(t, exitOK, strict.Code, "strict isolation gives memory back with whole objects: %v", strict)
}
