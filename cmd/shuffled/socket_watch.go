package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"
)

// socketWatchPeriod is how often the daemon looks whether its socket is still where
// clients look for it.
const socketWatchPeriod = 250 * time.Millisecond

// lost says what is missing of the socket: its lock, or the socket itself, because
// somebody removed or replaced it; "" if nothing is. Clients that are connected notice
// nothing of either.
func (s *socketFile) lost() (reason string) {
	if present, err := os.Lstat(s.path); err != nil || s.info == nil || !os.SameFile(present, s.info) {
		return reasonSocketRemoved
	}
	if !s.lock.isCurrent() {
		return reasonLockRemoved
	}
	return ""
}

// restore puts back what is missing, and returns the listener if that is a new one.
// The lock goes first: if another daemon has it now, the path is that one's.
func (s *socketFile) restore() (*net.UnixListener, error) {
	dir := filepath.Dir(s.path)
	if err := prepareDirectory(dir, s.gid); err != nil {
		return nil, err
	}
	if !s.lock.isCurrent() {
		lock, err := takeLock(s.path + ".lock")
		if err != nil {
			return nil, adviseOnDirectory(err, dir)
		}
		// The file of the old one is not at the path any more.
		old := s.lock
		s.lock = lock
		if err := old.release(); err != nil {
			return nil, err
		}
	}
	if present, err := os.Lstat(s.path); err == nil && s.info != nil && os.SameFile(present, s.info) {
		return nil, nil
	}
	old := s.listener
	if err := s.open(s.gid); err != nil {
		err = adviseOnDirectory(err, dir)
		if s.listener != old { // it could not be given to its group
			err = errors.Join(err, s.listener.Close(), os.Remove(s.path))
			s.listener = old
		}
		s.info = nil // nothing there is this one's
		return nil, err
	}
	if err := old.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return nil, err
	}
	return s.listener, nil
}

// watchSocket looks after the socket until ctx ends, and has serve accept clients
// from each new one. While clients cannot find the daemon it is not ready.
func (d *service) watchSocket(ctx context.Context, serve func(net.Listener)) {
	ticker := time.NewTicker(socketWatchPeriod)
	defer ticker.Stop()
	said := "" // of why there is no socket
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		reason := d.socket.lost()
		if reason == "" {
			continue
		}
		d.ready.add(reason)
		if said == "" {
			d.log.Warn("somebody removed or replaced the daemon's socket or its lock: new clients may not find it",
				"reason", reason, "socket", d.socket.path)
		}
		listener, err := d.socket.restore()
		if listener != nil {
			serve(listener)
		}
		if err != nil {
			if text := err.Error(); text != said {
				said = text
				d.log.Warn("cannot listen again", "error", err)
			}
			continue
		}
		said = ""
		d.ready.remove(reasonSocketRemoved)
		d.ready.remove(reasonLockRemoved)
		d.log.Info("listening again", "socket", d.socket.path)
	}
}
