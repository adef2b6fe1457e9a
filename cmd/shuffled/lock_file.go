package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A lockFile keeps a second daemon away from a socket. The lock is the kernel's
// (flock), so it ends with its holder, however that ends; the file says who the
// holder is.
type lockFile struct {
	file *os.File
	path string
}

// errLocked is returned when another process holds the lock.
var errLocked = errors.New("another shuffled is running")

// takeLock creates the file if it is missing and locks it, or returns errLocked
// with the pid that the file names.
func takeLock(path string) (*lockFile, error) {
	for {
		l, err := tryLock(path)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if l.isCurrent() {
			return l, l.writeOwner()
		}
		_ = l.file.Close() // its holder removed it just before we had the lock
	}
}

func tryLock(path string) (*lockFile, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return nil, withoutPath(err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return &lockFile{file, path}, nil
	}
	defer file.Close()
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, os.NewSyscallError("flock", err)
	}
	text, _ := io.ReadAll(io.LimitReader(file, 32))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		return nil, fmt.Errorf("%w with this socket (pid %d): stop it or choose another --socket", errLocked, pid)
	}
	return nil, fmt.Errorf("%w with this socket (its pid is not known): stop it or choose another --socket", errLocked)
}

// isCurrent reports whether the locked file is still the one at its path.
func (l *lockFile) isCurrent() bool {
	locked, err := l.file.Stat()
	if err != nil {
		return false
	}
	present, err := os.Lstat(l.path)
	return err == nil && os.SameFile(locked, present)
}

func (l *lockFile) writeOwner() error {
	err := l.file.Truncate(0)
	if err == nil {
		_, err = l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = l.file.Close()
		return fmt.Errorf("lock %s: write pid: %w", l.path, withoutPath(err))
	}
	return nil
}

// release removes the file and ends the lock, in this order: whoever opened the
// file before sees that it is not the one at the path any more.
func (l *lockFile) release() error {
	var err error
	if l.isCurrent() {
		err = os.Remove(l.path)
	}
	return errors.Join(err, l.file.Close())
}

// withoutPath returns the cause of an error that names a path which the message
// around it names already.
func withoutPath(err error) error {
	var pathError *os.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}
