package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	socketMode    = 0o660
	directoryMode = 0o750
)

// A socketFile is the socket that the daemon listens on, with its lock.
type socketFile struct {
	listener *net.UnixListener
	path     string
	gid      int // negative for the process's own
	lock     *lockFile
	info     fs.FileInfo
}

// listen takes the lock of a socket, removes the file that a killed daemon left
// there, and listens. A path at which somebody is listening, or at which there
// is something else than a socket, is left alone and an error. gid is the group
// of the socket, negative for the process's own.
func listen(path string, gid int) (*socketFile, error) {
	if err := prepareDirectory(filepath.Dir(path), gid); err != nil {
		return nil, err
	}
	lock, err := takeLock(path + ".lock")
	if err != nil {
		return nil, adviseOnDirectory(err, filepath.Dir(path))
	}
	s := &socketFile{path: path, gid: gid, lock: lock}
	if err := s.open(gid); err != nil {
		return nil, errors.Join(adviseOnDirectory(err, filepath.Dir(path)), s.close())
	}
	return s, nil
}

func (s *socketFile) open(gid int) error {
	if err := removeStale(s.path); err != nil {
		return err
	}
	// The mask is the process's, and nothing else of it creates files: the socket
	// never has a wider mode than it is to have.
	mask := unix.Umask(0o777 &^ socketMode)
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: s.path, Net: "unixpacket"})
	unix.Umask(mask)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.path, systemError(err))
	}
	listener.SetUnlinkOnClose(false) // by path, it might be a successor's
	s.listener = listener
	if s.info, err = os.Lstat(s.path); err != nil {
		return fmt.Errorf("listen on %s: %w", s.path, withoutPath(err))
	}
	if gid >= 0 {
		return giveToGroup(s.path, gid)
	}
	return nil
}

// close stops listening and removes the socket, if it is still this one, and the
// lock. After a part of open it undoes that part.
func (s *socketFile) close() error {
	var errs []error
	if s.listener != nil {
		if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.info != nil {
		if present, err := os.Lstat(s.path); err == nil && os.SameFile(present, s.info) {
			errs = append(errs, os.Remove(s.path))
		}
	}
	return errors.Join(append(errs, s.lock.release())...)
}

// prepareDirectory creates the directory of the socket if only that is missing.
func prepareDirectory(dir string, gid int) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("socket directory %s is not a directory: choose another --socket", dir)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return adviseOnDirectory(fmt.Errorf("socket directory %s: %w", dir, withoutPath(err)), dir)
	}
	if err = os.Mkdir(dir, directoryMode); errors.Is(err, fs.ErrExist) {
		return nil // created meanwhile
	}
	if err != nil {
		return adviseOnDirectory(fmt.Errorf("create socket directory %s: %w", dir, withoutPath(err)), dir)
	}
	if err := os.Chmod(dir, directoryMode); err != nil { // whatever the umask is
		return fmt.Errorf("create socket directory %s: set mode: %w", dir, withoutPath(err))
	}
	if gid >= 0 {
		return giveToGroup(dir, gid)
	}
	return nil
}

func giveToGroup(path string, gid int) error {
	if err := os.Lchown(path, -1, gid); err != nil {
		return fmt.Errorf("give %s to group %d: %w: the daemon must be root or a member of it", path, gid,
			withoutPath(err))
	}
	return nil
}

// removeStale removes a socket on which nobody listens. The lock is held.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", path, withoutPath(err))
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: there is a file that is no socket (%s): remove it or choose another --socket",
			path, info.Mode())
	}
	conn, err := net.Dial("unixpacket", path)
	if conn != nil {
		_ = conn.Close()
	}
	switch {
	case err == nil || errors.Is(err, unix.EPROTOTYPE) || errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("socket %s: another process listens on it, without the lock %s.lock: stop it or choose another --socket", path, path)
	case !errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("socket %s: is there somebody listening? %w", path, systemError(err))
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale socket %s: %w", path, withoutPath(err))
	}
	return nil
}

// adviseOnDirectory says what to do about a directory that cannot be used.
func adviseOnDirectory(err error, dir string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: uid %d needs write access to %s: create the socket's directory for that user "+
			"(systemd: RuntimeDirectory=shuffled), or choose another --socket", err, os.Geteuid(), dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: create %s first, or choose another --socket", err, filepath.Dir(dir))
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: mount a writable directory at %s, or choose another --socket", err, dir)
	}
	return err
}

// systemError returns the system's error of a network operation without the
// path, which the message around it names.
func systemError(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
