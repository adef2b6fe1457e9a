package memseg

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
)

func init() {
	children["holder"] = holdObject
	children["dumper"] = dumpCore
}

// holdObject is a child that maps descriptor 3 as its mode allows, says so, and
// keeps the mapping until it is killed.
func holdObject() error {
	prot := unix.PROT_READ
	if os.Getenv("SHUFFLED_WRITES") != "" {
		prot |= unix.PROT_WRITE
	}
	if _, err := unix.Mmap(3, 0, pageSize, prot, unix.MAP_SHARED); err != nil {
		return err
	}
	if err := unix.Close(3); err != nil {
		return err
	}
	fmt.Println("mapped")
	for {
		time.Sleep(time.Hour)
	}
}

// startHolder starts a child that holds the object of a descriptor, which it
// closes here.
func startHolder(t *testing.T, fd int, env ...string) *exec.Cmd {
	t.Helper()
	cmd := childCommand(t, "holder", env...)
	file := os.NewFile(uintptr(fd), "held")
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, file.Close())
	line := make([]byte, 7)
	_, err = out.Read(line)
	require.NoError(t, err)
	require.Equal(t, "mapped\n", string(line))
	return cmd
}

func requireAlone(t *testing.T, m *Memfd, want bool, while string) {
	t.Helper()
	alone, err := m.Alone()
	require.NoError(t, err)
	require.Equal(t, want, alone, while)
}

func TestObjectIsAloneOnlyWhenNobodyElseHasItOpenOrMapped(t *testing.T) {
	leaktest.Check(t)
	if !TellsHolders() {
		t.Skip("this kernel gives no leases on shared memory objects")
	}
	m := newMemfd(t, 3*pageSize)
	requireAlone(t, m, false, "its writer's descriptor is still to be handed out")
	unwritten := newMemfd(t, pageSize)
	unwritten.Retire()
	requireAlone(t, unwritten, true, "nobody will write it")
	_, err := unwritten.HandOut()
	require.ErrorIs(t, err, ErrClosed)

	writer, err := m.HandOut()
	require.NoError(t, err)
	requireAlone(t, m, false, "the writer's descriptor")
	_, err = m.HandOut()
	require.ErrorIs(t, err, ErrClosed, "there is one writer")
	mem, err := unix.Mmap(writer, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, unix.Close(writer))
	requireAlone(t, m, false, "the writer's mapping")
	require.NoError(t, unix.Munmap(mem))
	own, err := m.Map(ReadOnly, 0)
	require.NoError(t, err)
	requireAlone(t, m, true, "the writer is gone, and a mapping of its own does not count")
	require.NoError(t, own.Close())

	reader, err := m.ReopenReadOnly()
	require.NoError(t, err)
	requireAlone(t, m, false, "a reader's descriptor")
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Sendmsg(pair[0], []byte{1}, unix.UnixRights(reader), nil, 0))
	require.NoError(t, unix.Close(reader))
	requireAlone(t, m, false, "a descriptor on its way")
	require.NoError(t, unix.Close(pair[0]))
	require.NoError(t, unix.Close(pair[1]))
	require.Eventually(t, func() bool { alone, err := m.Alone(); return err == nil && alone }, 10*time.Second,
		time.Millisecond,
		"the descriptor was never received")
}

func TestObjectIsAloneWhenItsHolderWasKilled(t *testing.T) {
	leaktest.Check(t)
	if !TellsHolders() {
		t.Skip("this kernel gives no leases on shared memory objects")
	}
	for _, open := range []bool{false, true} {
		m, err := createMemfd("memseg-test", pageSize, open)
		require.NoError(t, err)
		fd, err := m.HandOut()
		require.NoError(t, err)
		writes := startHolder(t, fd, "SHUFFLED_WRITES=1")
		fd, err = m.ReopenReadOnly()
		require.NoError(t, err)
		reads := startHolder(t, fd)
		for _, holder := range []*exec.Cmd{writes, reads} {
			requireAlone(t, m, false, "a child has it mapped")
			require.NoError(t, holder.Process.Kill())
			_ = holder.Wait()
		}
		requireAlone(t, m, true, "both children are dead")
		require.NoError(t, m.Close())
	}
}

// vmFlags returns the flags that the kernel shows for each mapping of this process
// whose name holds a text.
func vmFlags(t *testing.T, name string) (flags []string) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	matches := false
	for line := range strings.Lines(string(smaps)) {
		first, rest, _ := strings.Cut(line, " ")
		switch {
		case first == "VmFlags:" && matches:
			flags = append(flags, strings.TrimSpace(rest))
		case !strings.HasSuffix(first, ":"):
			matches = strings.Contains(line, name)
		}
	}
	return flags
}

func TestMappingsAreNotDumped(t *testing.T) {
	leaktest.Check(t)
	for _, size := range []int64{3 * pageSize, 2*HugePageSize() + pageSize} {
		m, err := CreateMemfd("memseg-not-dumped", size)
		require.NoError(t, err)
		writer, err := m.Map(ReadWrite, 0)
		require.NoError(t, err)
		reader, err := m.Map(ReadOnly, pageSize)
		require.NoError(t, err)
		flags := vmFlags(t, "memfd:memseg-not-dumped")
		require.Len(t, flags, 2)
		for _, f := range flags {
			require.Contains(t, strings.Fields(f), "dd", "of %d bytes", size)
		}
		require.NoError(t, writer.Close())
		require.NoError(t, reader.Close())
		require.NoError(t, m.Close())
	}
}

// dumpCore is a child that has descriptor 3 mapped and ends with a core dump in
// its working directory.
func dumpCore() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/coredump_filter", []byte("0x7f"), 0); err != nil {
		return err
	}
	m, err := ReceiveMemfd(3, 64<<20, "dumped")
	if err != nil {
		return err
	}
	region, err := m.Map(ReadWrite, 0)
	if err != nil {
		return err
	}
	copy(region.Bytes(), "in the region")
	return unix.Kill(os.Getpid(), unix.SIGABRT)
}

// A core dump reads everything that it writes out, and reading a hole of a shared
// object backs it with memory.
func TestCoreDumpOfAWriterBacksNothing(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	require.NoError(t, err)
	if bytes.HasPrefix(pattern, []byte("|")) {
		t.Skipf("core dumps go to a program: %s", pattern)
	}
	leaktest.Check(t)
	m := newMemfd(t, 64<<20)
	fd, err := m.HandOut()
	require.NoError(t, err)
	cmd := childCommand(t, "dumper", "GOTRACEBACK=crash")
	cmd.Dir = t.TempDir()
	file := os.NewFile(uintptr(fd), "dumped")
	cmd.ExtraFiles = []*os.File{file}
	cmd.Stderr = nil // the trace of its end
	err = cmd.Run()
	require.NoError(t, file.Close())
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	status := exit.Sys().(syscall.WaitStatus)
	if !status.CoreDump() {
		t.Skipf("no core was dumped (%v)", status)
	}
	backed, err := m.BackedBytes()
	require.NoError(t, err)
	require.EqualValues(t, os.Getpagesize(), backed, "what the child wrote, and no hole")
}
