package memseg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() {
	children["memory cgroup"] = commitInMemoryCgroup
	children["small file system"] = commitInSmallFileSystem
	children["file size limit"] = commitUnderFileSizeLimit
}

// commitMore commits a part that there is memory for and then more than there
// is, and stores to every byte that it was promised.
func commitMore(m *Memfd, enough, tooMuch int64) error {
	region, err := m.Map(ReadWrite, 0)
	if err != nil {
		return err
	}
	if err := m.Commit(0, enough); err != nil {
		return fmt.Errorf("commit what there is: %w", err)
	}
	err = m.Commit(enough, tooMuch)
	if !errors.Is(err, ErrNoMemory) {
		return fmt.Errorf("commit more than there is: got %v, want %w", err, ErrNoMemory)
	}
	backed, err := m.BackedBytes()
	if err != nil {
		return err
	}
	if backed != enough {
		return fmt.Errorf("%d bytes are backed after the shortage, want the %d from before", backed, enough)
	}
	for i := range region.Bytes()[:enough] {
		region.Bytes()[i] = 1
	}
	return errors.Join(region.Close(), m.Close())
}

const cgroupLimit = 64 * mib

func TestShortageOfMemoryIsAnErrorOfCommit(t *testing.T) {
	group := newMemoryCgroup(t)
	cmd := childCommand(t, "memory cgroup", "SHUFFLED_CGROUP="+group)
	require.NoError(t, cmd.Run(), "neither a failure nor a signal")
}

// newMemoryCgroup returns the directory of a memory cgroup whose processes get
// an error when they are over its limit. Only the first version of cgroups can
// do so; the second kills.
func newMemoryCgroup(t *testing.T) string {
	const root = "/sys/fs/cgroup/memory"
	dir, err := os.MkdirTemp(filepath.Join(root, ChargedCgroup()), "memseg-test-")
	if err != nil {
		dir, err = os.MkdirTemp(root, "memseg-test-")
	}
	if err != nil {
		t.Skipf("cannot make a memory cgroup of version 1: %v", err)
	}
	t.Cleanup(func() {
		// The kernel needs a moment to see that the child has left.
		require.Eventually(t, func() bool { return os.Remove(dir) == nil }, 5*time.Second, 10*time.Millisecond,
			"remove %s", dir)
	})
	for file, value := range map[string]string{"memory.limit_in_bytes": strconv.Itoa(cgroupLimit),
		"memory.oom_control": "1"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			t.Skipf("cannot limit a memory cgroup: %v", err)
		}
	}
	return dir
}

func commitInMemoryCgroup() error {
	procs := filepath.Join(os.Getenv("SHUFFLED_CGROUP"), "cgroup.procs")
	if err := os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return err
	}
	if !strings.Contains(ChargedCgroup(), "memseg-test-") {
		return fmt.Errorf("charged cgroup is %q", ChargedCgroup())
	}
	m, err := CreateMemfd("memseg-test", 4*cgroupLimit)
	if err != nil {
		return err
	}
	return commitMore(m, cgroupLimit/4, 2*cgroupLimit)
}

func TestShortageOfAFileSystemIsAnErrorOfCommit(t *testing.T) {
	cmd := childCommand(t, "small file system", "SHUFFLED_DIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err := cmd.Start()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES) {
		t.Skipf("cannot make a mount namespace: %v", err)
	}
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), "neither a failure nor a signal")
}

// commitInSmallFileSystem uses a file in a file system of one MiB in place of a
// shared object, whose memory has no bound of its own.
func commitInSmallFileSystem() error {
	dir := os.Getenv("SHUFFLED_DIR")
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "region"))
	if err != nil {
		return err
	}
	m := &Memfd{file: file, name: "region", size: 4 * mib}
	if err := file.Truncate(m.size); err != nil {
		return err
	}
	return commitMore(m, mib/2, 2*mib)
}

func TestFileSizeLimitRefusesCreationAndNotCommit(t *testing.T) {
	require.NoError(t, childCommand(t, "file size limit").Run(), "neither a failure nor a signal")
}

func commitUnderFileSizeLimit() error {
	before, err := CreateMemfd("memseg-test", 4*mib)
	if err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: mib, Max: mib}); err != nil {
		return err
	}
	if _, err := CreateMemfd("memseg-test", 4*mib); !errors.Is(err, ErrNoMemory) {
		return fmt.Errorf("create beyond the limit: got %v, want %w", err, ErrNoMemory)
	}
	return errors.Join(before.Commit(0, 4*mib), before.Close())
}
