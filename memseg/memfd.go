package memseg

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"shuffled/internal/opened"
)

// sizeSeals fix the size of a shared object for good, so that no peer can
// truncate it under a reader.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// A Memfd owns the descriptor of one shared memory object. Its methods may be
// called from any goroutine; after Close they return ErrClosed, as those of a nil or zero
// Memfd do.
type Memfd struct {
	file   *os.File
	name   string
	size   int64
	writer *writerFile // nil unless it is for one writer
}

// noExecSeal says once whether this kernel knows MFD_NOEXEC_SEAL (Linux 6.3).
var noExecSeal = sync.OnceValue(func() bool {
	fd, err := unix.MemfdCreate("shuffled-probe", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
})

// SupportsNoExecSeal reports whether new objects are sealed against execution.
// Older kernels go without, which costs hardening and nothing else.
func SupportsNoExecSeal() bool { return noExecSeal() }

// CreateMemfd makes a shared object of size bytes, rounded up to whole pages, for
// one writer, which gets the descriptor of HandOut, and any number of readers.
// Its size is sealed and its mode is 0400, so that a read-only descriptor cannot
// be re-opened for writing. No page is backed yet: see Commit.
func CreateMemfd(name string, size int64) (*Memfd, error) { return createMemfd(name, size, false) }

// CreateOpenMemfd makes a shared object as CreateMemfd does, but with the mode
// 0600, for any number of writers: each of them gets a descriptor of HandOut.
func CreateOpenMemfd(name string, size int64) (*Memfd, error) { return createMemfd(name, size, true) }

func createMemfd(name string, size int64, open bool) (*Memfd, error) {
	if size <= 0 {
		return nil, fmt.Errorf("create shared object %q of %d bytes: %w", name, size, ErrRegionSize)
	}
	size = roundUp(size, int64(os.Getpagesize()))
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if noExecSeal() {
		flags |= unix.MFD_NOEXEC_SEAL
	}
	fd, err := unix.MemfdCreate(name, flags)
	if err != nil {
		return nil, fmt.Errorf("create shared object %q: %w", name, os.NewSyscallError("memfd_create", err))
	}
	m := &Memfd{name: name, size: size}
	err = m.init(fd, open)
	_ = unix.Close(fd)
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("create shared object %q of %d bytes: %w", name, size, shortage(err))
	}
	return m, nil
}

// shortage makes the kernel's errors for a want of memory ErrNoMemory as well.
func shortage(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("%w: %w", err, ErrNoMemory)
	}
	return err
}

// init sets the object up and opens it for the daemon and for its writer: the
// kernel does not count the open file of memfd_create itself among those that
// Alone asks for.
func (m *Memfd) init(fd int, open bool) error {
	if err := unix.Ftruncate(fd, m.size); err != nil {
		return fmt.Errorf("set size: %w", os.NewSyscallError("ftruncate", err))
	}
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return fmt.Errorf("set mode: %w", os.NewSyscallError("fchmod", err))
	}
	own, err := reopen(fd, unix.O_RDWR)
	if err != nil {
		return fmt.Errorf("re-open through /proc: %w", err)
	}
	m.file = os.NewFile(uintptr(own), "memfd:"+m.name)
	if !open {
		writer, err := reopen(fd, unix.O_RDWR)
		if err != nil {
			return fmt.Errorf("re-open through /proc: %w", err)
		}
		m.writer = &writerFile{fd: writer}
		if err := unix.Fchmod(fd, 0o400); err != nil {
			return fmt.Errorf("set mode: %w", os.NewSyscallError("fchmod", err))
		}
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals); err != nil {
		return fmt.Errorf("seal size: %w", os.NewSyscallError("fcntl F_ADD_SEALS", err))
	}
	return nil
}

func reopen(fd, flags int) (int, error) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), flags|unix.O_CLOEXEC, 0)
	opened.Descriptors(fd)
	return fd, os.NewSyscallError("open /proc/self/fd", err)
}

// ReceiveMemfd takes over a descriptor that a peer sent and checks it before
// anything is mapped: a sealed shared object of exactly the size the peer
// declared. A regular file, an unsealed object or another size is refused with
// ErrNotMemfd, ErrNotSealed or ErrRegionSize. The descriptor is closed on error.
func ReceiveMemfd(fd int, size int64, name string) (*Memfd, error) {
	m := &Memfd{file: os.NewFile(uintptr(fd), "memfd:"+name), name: name, size: size}
	err := m.control(func(fd int) error {
		seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err != nil {
			return fmt.Errorf("read seals: %w: %w", os.NewSyscallError("fcntl F_GET_SEALS", err), ErrNotMemfd)
		}
		if seals&sizeSeals != sizeSeals {
			return fmt.Errorf("seals are %#x, want at least %#x: %w", seals, sizeSeals, ErrNotSealed)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("stat: %w", err)
		}
		if st.Size != size || size <= 0 {
			return fmt.Errorf("size is %d, declared %d: %w", st.Size, size, ErrRegionSize)
		}
		return nil
	})
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("receive shared object %q: %w", name, err)
	}
	return m, nil
}

// control runs f with the descriptor, which stays open meanwhile.
func (m *Memfd) control(f func(fd int) error) error {
	if m.isNone() {
		return ErrClosed
	}
	raw, err := m.file.SyscallConn()
	if err != nil {
		return ErrClosed
	}
	var ferr error
	if err := raw.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return ErrClosed
	}
	return ferr
}

// isNone reports whether m is not an object that was made or received.
func (m *Memfd) isNone() bool { return m == nil || m.file == nil }

// label names the object in errors.
func (m *Memfd) label() string {
	if m == nil {
		return ""
	}
	return m.name
}

// Size returns the size in bytes. It stays known after Close.
func (m *Memfd) Size() int64 {
	if m == nil {
		return 0
	}
	return m.size
}

// ReopenReadOnly returns a new descriptor that can be mapped for reading only.
// The caller owns it.
func (m *Memfd) ReopenReadOnly() (int, error) {
	ro := -1
	err := m.control(func(fd int) error {
		var err error
		ro, err = reopen(fd, unix.O_RDONLY)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("re-open %q read-only: %w", m.label(), err)
	}
	return ro, nil
}

// Commit backs [offset, offset+length) with memory, so that a later store there
// cannot fault for want of it. Shortage is ErrNoMemory, here and now.
func (m *Memfd) Commit(offset, length int64) error {
	err := m.control(func(fd int) error {
		return retryEINTR(func() error {
			return unix.Fallocate(fd, 0, offset, length)
		})
	})
	if err != nil {
		return fmt.Errorf("commit %d bytes of %q: %w", length, m.label(),
			shortage(os.NewSyscallError("fallocate", err)))
	}
	return nil
}

// Punch gives the memory behind [offset, offset+length) back to the kernel; the
// range reads as zero afterwards. An object sealed against future writes
// refuses it with EPERM.
func (m *Memfd) Punch(offset, length int64) error {
	err := m.control(func(fd int) error {
		return retryEINTR(func() error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, length)
		})
	})
	if err != nil {
		return fmt.Errorf("give back %d bytes of %q: %w", length, m.label(),
			os.NewSyscallError("fallocate FALLOC_FL_PUNCH_HOLE", err))
	}
	return nil
}

// WriteAt stores b at offset without a mapping, for headers that are written
// before the object is handed out.
func (m *Memfd) WriteAt(b []byte, offset int64) error {
	if m.isNone() {
		return fmt.Errorf("write %d bytes at %d of %q: %w", len(b), offset, m.label(), ErrClosed)
	}
	if _, err := m.file.WriteAt(b, offset); err != nil {
		var failed *os.PathError
		switch {
		case errors.Is(err, os.ErrClosed):
			err = ErrClosed
		case errors.As(err, &failed):
			err = os.NewSyscallError("pwrite64", failed.Err)
		}
		return fmt.Errorf("write %d bytes at %d of %q: %w", len(b), offset, m.label(), err)
	}
	return nil
}

// SealFutureWrite forbids every new writable mapping and every write by
// descriptor; writable mappings that exist go on.
func (m *Memfd) SealFutureWrite() error { return m.seal(unix.F_SEAL_FUTURE_WRITE) }

// SealSeals forbids further seals.
func (m *Memfd) SealSeals() error { return m.seal(unix.F_SEAL_SEAL) }

func (m *Memfd) seal(seals int) error {
	err := m.control(func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		return os.NewSyscallError("fcntl F_ADD_SEALS", err)
	})
	if err != nil {
		return fmt.Errorf("seal %q with %#x: %w", m.label(), seals, err)
	}
	return nil
}

// BackedBytes returns how much memory the kernel holds for the object.
func (m *Memfd) BackedBytes() (int64, error) {
	var st unix.Stat_t
	if err := m.control(func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return 0, fmt.Errorf("stat %q: %w", m.label(), err)
	}
	return st.Blocks * 512, nil
}

// Map maps the first length bytes; 0 means the whole object.
func (m *Memfd) Map(access Access, length int64) (*Region, error) {
	if length == 0 {
		length = m.Size()
	}
	if length < 0 || length > m.Size() {
		return nil, fmt.Errorf("map %d bytes of %q, which has %d: %w", length, m.label(), m.Size(), ErrRegionSize)
	}
	prot := unix.PROT_READ
	if access == ReadWrite {
		prot |= unix.PROT_WRITE
	}
	var mem []byte
	err := m.control(func(fd int) error {
		var err error
		for range 10 { // others may take the addresses that are found
			mem, err = mapAligned(fd, 0, int(length), prot)
			if !errors.Is(err, unix.ENOMEM) || !findAddresses() {
				break
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %q %s: %w", length, m.label(), access, os.NewSyscallError("mmap", err))
	}
	return newMappedRegion(m.name, mem, access), nil
}

// Close closes the descriptor, and its writer's if that was not handed out.
// Mappings made from it stay. A second Close returns ErrClosed.
func (m *Memfd) Close() error {
	m.Retire()
	if m.isNone() {
		return ErrClosed
	}
	if err := m.file.Close(); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return ErrClosed
		}
		return err
	}
	return nil
}

func retryEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// ChargedCgroup names the memory cgroup of this process, which is charged for
// the pages it commits; "" where it cannot be read.
func ChargedCgroup() string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && (fields[1] == "" || strings.Contains(","+fields[1]+",", ",memory,")) {
			return fields[2]
		}
	}
	return ""
}
