package memseg

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A writerFile is the open file of an object's one writer until it is handed out.
type writerFile struct {
	mu    sync.Mutex
	fd    int
	taken bool
}

func (w *writerFile) take() (fd int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok = !w.taken
	w.taken = true
	return w.fd, ok
}

// HandOut returns a descriptor for a peer that writes the object: the only one
// that there is of an object of CreateMemfd, so that a second call returns
// ErrClosed; any number of them of CreateOpenMemfd. The caller owns it.
func (m *Memfd) HandOut() (int, error) {
	if m != nil && m.writer != nil {
		if fd, ok := m.writer.take(); ok {
			return fd, nil
		}
		return -1, fmt.Errorf("hand out %q a second time: %w", m.label(), ErrClosed)
	}
	rw := -1
	err := m.control(func(fd int) error {
		var err error
		rw, err = reopen(fd, unix.O_RDWR)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("re-open %q for writing: %w", m.label(), err)
	}
	return rw, nil
}

// Retire ends the handing out of an object of CreateMemfd: the descriptor of its
// writer is closed if nobody has it, and HandOut returns ErrClosed.
func (m *Memfd) Retire() {
	if m == nil || m.writer == nil {
		return
	}
	if fd, ok := m.writer.take(); ok {
		_ = unix.Close(fd)
	}
}

// Alone reports whether nobody but this process can reach the object any more: no
// process has it mapped or open, and no descriptor of it is on its way. What was
// made with Dup, and mappings that this Memfd made itself, do not count.
//
// The kernel answers it exactly: it gives a write lease only on a file that is
// open nowhere else, and a mapping keeps its file open. What is kept for HandOut
// counts as open. Where it knows no leases on such objects, the error is
// ErrUnknownHolders; see TellsHolders.
func (m *Memfd) Alone() (bool, error) {
	alone := false
	err := m.control(func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", err, ErrUnknownHolders)
		}
		alone = true
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("who holds %q: %w", m.label(), err)
	}
	return alone, nil
}

// Inode returns the number by which /proc/PID/maps shows the object.
func (m *Memfd) Inode() (uint64, error) {
	var st unix.Stat_t
	if err := m.control(func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return 0, fmt.Errorf("stat %q: %w", m.label(), err)
	}
	return st.Ino, nil
}

var tellsHolders = sync.OnceValue(func() bool {
	m, err := CreateOpenMemfd("shuffled-probe", int64(os.Getpagesize()))
	if err != nil {
		return false
	}
	defer func() { _ = m.Close() }()
	before, err := m.Alone()
	if err != nil || !before {
		return false
	}
	peer, err := m.HandOut()
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(peer) }()
	while, err := m.Alone()
	return err == nil && !while
})

// TellsHolders reports whether Alone works with this kernel and its settings
// (/proc/sys/fs/leases-enable).
func TellsHolders() bool { return tellsHolders() }
