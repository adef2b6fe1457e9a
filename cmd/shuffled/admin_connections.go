package main

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxAdminConnections is how many HTTP connections there can be: some scrapers, an
// operator or two, and probes. Their descriptors are kept from clients.
const maxAdminConnections = 32

// adminConnections are the HTTP connections, at most maxAdminConnections. A new one
// always gets in: for it goes one of the peer that has most, see tcpPeer: the one that
// has been without a request for longest, or if all have one, the one that began it
// first. So whoever opens thousands closes their own, and a probe of somebody else is
// answered however fast they come. It is the net.Listener of an http.Server, whose
// ConnState is its note.
type adminConnections struct {
	net.Listener
	closed atomic.Uint64 // to make room

	mu    sync.Mutex
	clock uint64
	open  map[net.Conn]*adminConnection
}

// An adminConnection is one of them.
type adminConnection struct {
	peer  string
	busy  bool   // has a request
	since uint64 // by clock: when it became what it is
}

func newAdminConnections(listener net.Listener) *adminConnections {
	return &adminConnections{Listener: listener, open: make(map[net.Conn]*adminConnection)}
}

// Accept implements net.Listener.
func (a *adminConnections) Accept() (net.Conn, error) {
	for {
		conn, err := a.Listener.Accept()
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			// Whatever has taken what was kept: monitoring is to tell of it.
			a.mu.Lock()
			closed := a.closeOne("")
			a.mu.Unlock()
			if closed {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		peer := tcpPeer(conn)
		a.mu.Lock()
		if len(a.open) >= maxAdminConnections {
			a.closeOne(peer)
		}
		a.clock++
		a.open[conn] = &adminConnection{peer: peer, since: a.clock}
		a.mu.Unlock()
		return conn, nil
	}
}

// closeOne closes the connection whose turn it is, for one of that peer to come, and
// reports whether there is one. The lock is held.
func (a *adminConnections) closeOne(coming string) bool {
	shares := map[string]int{coming: 1}
	for _, c := range a.open {
		shares[c.peer]++
	}
	var victim net.Conn
	for conn, c := range a.open {
		if v := a.open[victim]; v == nil || c.goesBefore(v, shares) {
			victim = conn
		}
	}
	if victim == nil {
		return false
	}
	delete(a.open, victim)
	a.closed.Add(1)
	if tcp, ok := victim.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // nothing of it stays in the kernel
	}
	_ = victim.Close()
	return true
}

// goesBefore reports whether a connection makes room before v.
func (c *adminConnection) goesBefore(v *adminConnection, shares map[string]int) bool {
	if shares[c.peer] != shares[v.peer] {
		return shares[c.peer] > shares[v.peer]
	}
	if c.busy != v.busy {
		return v.busy
	}
	return c.since < v.since
}

// note takes note of what a connection does.
func (a *adminConnections) note(conn net.Conn, state http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.open[conn]
	if c == nil {
		return // was closed to make room
	}
	a.clock++
	switch state {
	case http.StateActive:
		c.busy, c.since = true, a.clock
	case http.StateIdle:
		c.busy, c.since = false, a.clock
	case http.StateClosed, http.StateHijacked:
		delete(a.open, conn)
	}
}
