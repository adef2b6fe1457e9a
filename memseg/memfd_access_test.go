package memseg

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
)

func init() { children["intruder"] = intrude }

// otherUser is "nobody", who owns nothing.
const otherUser = 65534

// attempts are what a process tries that was given a read-only descriptor of an
// object and wants to change its content. Each returns nil when it could.
var attempts = []struct {
	name string
	try  func(fd int) error
}{
	{"map for writing", tryMap},
	{"map for reading and change the protection", func(fd int) error {
		mem, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("not even readable: %w", err)
		}
		defer func() { _ = unix.Munmap(mem) }()
		return unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE)
	}},
	{"write", func(fd int) error { _, err := unix.Pwrite(fd, []byte{1}, 0); return err }},
	{"truncate", func(fd int) error { return unix.Ftruncate(fd, 0) }},
	{"punch a hole", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, pageSize)
	}},
	{"add seals", func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL)
		return err
	}},
	{"re-open and map for writing", tryReopen(tryMap)},
	{"re-open and write", tryReopen(func(fd int) error { _, err := unix.Pwrite(fd, []byte{1}, 0); return err })},
	{"re-open and truncate", tryReopen(func(fd int) error { return unix.Ftruncate(fd, 0) })},
	{"change the mode, re-open and map for writing", func(fd int) error {
		if err := unix.Fchmod(fd, 0o600); err != nil {
			return err
		}
		return tryReopen(tryMap)(fd)
	}},
}

func tryMap(fd int) error {
	mem, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		mem[0] = 1
		_ = unix.Munmap(mem)
	}
	return err
}

func tryReopen(then func(fd int) error) func(fd int) error {
	return func(fd int) error {
		again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(again) }()
		return then(again)
	}
}

// tryAll returns the error of each attempt by its name, "" for success.
func tryAll(fd int) map[string]string {
	results := map[string]string{}
	for _, attempt := range attempts {
		results[attempt.name] = ""
		if err := attempt.try(fd); err != nil {
			var errno unix.Errno
			results[attempt.name] = err.Error()
			if errors.As(err, &errno) {
				results[attempt.name] = unix.ErrnoName(errno)
			}
		}
	}
	return results
}

// intrude is the child: it tries everything on descriptor 3, if it was given one,
// and on an object of its own.
func intrude() error {
	var results []map[string]string
	if os.Getenv("SHUFFLED_GIVEN") != "" {
		results = append(results, tryAll(3))
	}
	for _, strict := range []bool{false, true} {
		fd, done, err := handOut(strict)
		if err != nil {
			return err
		}
		results = append(results, tryAll(fd))
		done()
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// handOut creates an object with a writer, as a daemon does for a partition, and
// returns the descriptor that it gives to consumers.
func handOut(strict bool) (fd int, done func(), err error) {
	m, err := CreateMemfd("memseg-test", pageSize)
	if err != nil {
		return -1, nil, err
	}
	region, err := m.Map(ReadWrite, 0)
	if err != nil {
		return -1, nil, errors.Join(err, m.Close())
	}
	if strict {
		err = m.SealFutureWrite()
	}
	if err == nil {
		fd, err = m.ReopenReadOnly()
	}
	if err != nil {
		return -1, nil, errors.Join(err, region.Close(), m.Close())
	}
	return fd, func() { _ = errors.Join(unix.Close(fd), region.Close(), m.Close()) }, nil
}

// The results that the kernel's rules give. A read-only descriptor allows no
// change. Re-opening it asks the mode, 0400, which stops everybody but root; the
// owner may change the mode first. Only the seal against future writes stops
// those two.
var (
	stranger = map[string]string{
		"map for writing": "EACCES", "map for reading and change the protection": "EACCES",
		"write": "EBADF", "truncate": "EINVAL", "punch a hole": "EBADF", "add seals": "EPERM",
		"re-open and map for writing": "EACCES", "re-open and write": "EACCES", "re-open and truncate": "EACCES",
		"change the mode, re-open and map for writing": "EPERM",
	}
	owner = with(stranger, map[string]string{"change the mode, re-open and map for writing": ""})
	root  = with(owner, map[string]string{
		"re-open and map for writing": "", "re-open and write": "", "re-open and truncate": "EPERM",
	})
	strictOwner = with(stranger, map[string]string{"change the mode, re-open and map for writing": "EPERM"})
	strictRoot  = with(root, map[string]string{
		"re-open and map for writing": "EPERM", "re-open and write": "EPERM",
		"change the mode, re-open and map for writing": "EPERM",
	})
)

func with(base, changes map[string]string) map[string]string {
	m := map[string]string{}
	for _, from := range []map[string]string{base, changes} {
		for name, result := range from {
			m[name] = result
		}
	}
	return m
}

func TestReadOnlyDescriptorStaysReadOnlyForThisUser(t *testing.T) {
	leaktest.Check(t)
	want, wantStrict := owner, strictOwner
	if os.Geteuid() == 0 {
		t.Log("root may re-open an object of mode 0400 for writing; the seal against future writes holds for root too")
		want, wantStrict = root, strictRoot
	}
	for _, strict := range []bool{false, true} {
		fd, done, err := handOut(strict)
		require.NoError(t, err)
		if strict {
			want = wantStrict
		}
		require.Equal(t, want, tryAll(fd), "strict: %v", strict)
		done()
	}
}

func TestReadOnlyDescriptorStaysReadOnlyForAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	leaktest.Check(t)
	for _, strict := range []bool{false, true} {
		fd, done, err := handOut(strict)
		require.NoError(t, err)
		cmd := childCommand(t, "intruder", "SHUFFLED_GIVEN=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
		given, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		file := os.NewFile(uintptr(given), "given")
		cmd.ExtraFiles = []*os.File{file}
		out, err := cmd.Output()
		require.NoError(t, err)
		var results []map[string]string
		require.NoError(t, json.Unmarshal(out, &results))
		require.Len(t, results, 3)
		require.Equal(t, stranger, results[0], "an object of root, strict: %v", strict)
		require.Equal(t, owner, results[1], "its own object")
		require.Equal(t, strictOwner, results[2], "its own object, strict")
		require.NoError(t, file.Close())
		done()
	}
}
