package ipc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"shuffled/internal/opened"
	"shuffled/shuffle"
)

// MaxMessageSize is the number of bytes that a message may take on the socket,
// checked by both sides. The longest answer, a PartitionInfo with 1024
// subpartitions, fits.
const MaxMessageSize = 128 << 10

// packetOverhead is what the socket's send buffer must hold beside a packet, with
// room to spare: the kernel refuses a packet that does not fit the buffer.
const packetOverhead = 4096

// DefaultSendTimeout is how long Send waits for a peer that does not read.
const DefaultSendTimeout = 30 * time.Second

// A Conn is one end of a SOCK_SEQPACKET Unix socket. It carries one protobuf
// message a packet, with up to MaxFDs file descriptors beside it.
//
// Send may be called from any number of goroutines, Receive from one at a time,
// Peer and Close from any. After Close every call returns an error that wraps
// shuffle.ErrClosed; calls that are blocked return it at once. Those of a nil or zero
// Conn return shuffle.ErrInvalidArgument.
type Conn struct {
	socket      *net.UnixConn
	sendTimeout atomic.Int64 // a time.Duration, 0 for none

	// sendSlot is held, by a value in it, by the goroutine that sends. It is a
	// channel so that waiting for it ends with the sender's deadline.
	sendSlot   chan struct{}
	sendBuffer []byte

	// What follows is the receiver's.
	raw           syscall.RawConn
	noDescriptors bool
	spare         spareDescriptors
	receiveErr    error
}

// NewConn makes a Conn of a connected socket of the network "unixpacket", such
// as a listener accepts. The socket belongs to the Conn; after an error it is
// still the caller's. A socket of another type gives an error that wraps
// shuffle.ErrInvalidArgument.
func NewConn(socket *net.UnixConn) (*Conn, error) {
	if socket == nil {
		return nil, fmt.Errorf("new connection of no socket: %w", shuffle.ErrInvalidArgument)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("new connection: %w", err)
	}
	var (
		socketType, sendBuffer int
		typeErr, bufferErr     error
	)
	err = raw.Control(func(fd uintptr) {
		opened.Descriptors(int(fd))
		socketType, typeErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE)
		sendBuffer, bufferErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
	})
	if err = errors.Join(err, typeErr, bufferErr); err != nil {
		return nil, fmt.Errorf("new connection: %w", err)
	}
	if socketType != unix.SOCK_SEQPACKET {
		return nil, fmt.Errorf("new connection: got socket type %d, want SOCK_SEQPACKET (%d): %w",
			socketType, unix.SOCK_SEQPACKET, shuffle.ErrInvalidArgument)
	}
	if sendBuffer < MaxMessageSize+packetOverhead {
		// The kernel doubles the value and cuts it at net.core.wmem_max; if that is
		// too little, Send says so.
		if err := socket.SetWriteBuffer(MaxMessageSize); err != nil {
			return nil, fmt.Errorf("new connection: send buffer of %d bytes: %w", MaxMessageSize, err)
		}
	}
	c := &Conn{socket: socket, raw: raw, sendSlot: make(chan struct{}, 1)}
	c.sendTimeout.Store(int64(DefaultSendTimeout))
	return c, nil
}

// NewConnFD makes a Conn of a connected socket by its descriptor, such as one
// that a process inherits. It takes the descriptor over and closes it, also on an
// error. Errors are those of NewConn.
func NewConnFD(fd int) (*Conn, error) {
	file := os.NewFile(uintptr(fd), "control socket")
	if file == nil {
		return nil, fmt.Errorf("new connection: got descriptor %d: %w", fd, shuffle.ErrInvalidArgument)
	}
	defer file.Close()
	// FileConn duplicates the descriptor.
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("new connection of descriptor %d: %w", fd, err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("new connection of descriptor %d: got a %s socket, want a Unix one: %w",
			fd, conn.LocalAddr().Network(), shuffle.ErrInvalidArgument)
	}
	c, err := NewConn(socket)
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	return c, nil
}

// Pair returns the two ends of a new connection within this process: what a
// worker and its own daemon use without a socket in the file system.
func Pair() (a, b *Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", os.NewSyscallError("socketpair", err))
	}
	if a, err = NewConnFD(fds[0]); err != nil {
		_ = unix.Close(fds[1])
		return nil, nil, err
	}
	if b, err = NewConnFD(fds[1]); err != nil {
		_ = a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

// Check refuses a connection that was not made.
func (c *Conn) Check() error {
	if c == nil || c.socket == nil {
		return fmt.Errorf("the Conn was not made, ipc.Dial returns one: %w", shuffle.ErrInvalidArgument)
	}
	return nil
}

// SetSendTimeout sets how long the following calls of Send wait for a peer that
// does not read; 0 is for ever. For any number of goroutines.
func (c *Conn) SetSendTimeout(timeout time.Duration) {
	if c.Check() == nil {
		c.sendTimeout.Store(int64(timeout))
	}
}

// Send sends a message and copies of the descriptors, which stay the caller's.
// It blocks while the socket is full, at most for the send time-out; the error
// then wraps os.ErrDeadlineExceeded. A message is sent whole or not at all, so
// the connection remains usable after an error.
//
// A message that is empty or above MaxMessageSize, or more than MaxFDs
// descriptors, give an error that wraps shuffle.ErrInvalidArgument. A peer that
// has ended gives one that wraps io.EOF; what it had sent before is still there
// for Receive.
func (c *Conn) Send(msg proto.Message, fds ...int) error {
	if err := c.Check(); err != nil {
		return err
	}
	var deadline time.Time
	if timeout := time.Duration(c.sendTimeout.Load()); timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	err := c.send(msg, deadline, fds)
	if err != nil {
		return fmt.Errorf("send %s: %w", MessageName(msg), err)
	}
	return nil
}

// send encodes into the connection's buffer.
func (c *Conn) send(msg proto.Message, deadline time.Time, fds []int) error {
	if err := checkFDCount(len(fds)); err != nil {
		return err
	}
	if err := c.acquireSend(deadline); err != nil {
		return err
	}
	defer c.releaseSend()
	packet, err := encodeMessage(c.sendBuffer[:0], msg)
	if err != nil {
		return err
	}
	c.sendBuffer = packet
	return c.writePacket(packet, deadline, fds)
}

// sendEncoded sends a packet of encodeMessage, with no deadline: Close ends it.
func (c *Conn) sendEncoded(packet []byte, fds []int) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := c.acquireSend(time.Time{}); err != nil {
		return err
	}
	defer c.releaseSend()
	return c.writePacket(packet, time.Time{}, fds)
}

// acquireSend waits for the turn to send.
func (c *Conn) acquireSend(deadline time.Time) error {
	if deadline.IsZero() {
		// Close ends the send of the holder, so the wait is not for ever.
		c.sendSlot <- struct{}{}
		return nil
	}
	select {
	case c.sendSlot <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case c.sendSlot <- struct{}{}:
		return nil
	case <-timer.C:
		return errPeerDoesNotRead
	}
}

// releaseSend ends the turn.
func (c *Conn) releaseSend() { <-c.sendSlot }

var (
	// errPeerDoesNotRead ends a send at its deadline.
	errPeerDoesNotRead = fmt.Errorf("the peer does not read: %w", os.ErrDeadlineExceeded)
	// errPeerEnded ends a send to nobody.
	errPeerEnded = fmt.Errorf("the peer has ended: %w", io.EOF)
)

// writePacket writes one packet in the turn to send. Packets are atomic.
func (c *Conn) writePacket(packet []byte, deadline time.Time, fds []int) error {
	if err := c.socket.SetWriteDeadline(deadline); err != nil {
		return closedOr(err)
	}
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	_, _, err := c.socket.WriteMsgUnix(packet, control, nil)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errPeerDoesNotRead
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return fmt.Errorf("%w (%w)", errPeerEnded, err)
	case errors.Is(err, unix.EMSGSIZE):
		return fmt.Errorf("packet of %d bytes is above the socket's send buffer, raise net.core.wmem_max: %w",
			len(packet), err)
	case errors.Is(err, unix.ETOOMANYREFS):
		return fmt.Errorf("the descriptors under way to peers are above RLIMIT_NOFILE: %w", err)
	}
	return closedOr(err)
}

// Receive waits for the next message, reads it into msg, which it resets first,
// and returns the descriptors that came with it: they are the caller's, see FDs.
// It is ended by the peer's end or by Close.
//
// If descriptors were lost since this process may not open as many, the error
// wraps ErrDescriptorsLost: msg was received, none of its descriptors is open,
// and the connection goes on. Every other error is final: later calls return it
// again, and what msg holds is undefined. io.EOF, as it is, says that the peer
// has ended and everything it sent was received. A packet above MaxMessageSize,
// or one that is no message of this type, gives an error that wraps
// shuffle.ErrProtocol. No descriptor stays open after an error.
func (c *Conn) Receive(msg proto.Message) (FDs, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.receiveErr != nil {
		return nil, c.receiveErr
	}
	fds, err := c.receive(msg)
	if err != nil {
		fds.Close()
		if err != io.EOF {
			err = fmt.Errorf("receive %s: %w", MessageName(msg), err)
		}
		if !errors.Is(err, ErrDescriptorsLost) {
			c.receiveErr = err
			c.spare.close()
		}
		return nil, err
	}
	return fds, nil
}

// receive returns descriptors also beside an error.
func (c *Conn) receive(msg proto.Message) (FDs, error) {
	r, err := c.receivePacket()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, closedOr(err)
	}
	defer receiveBuffers.put(r.buffer)
	// Whatever else is wrong, descriptors that have arrived must be found.
	fds, rightsErr := parseRights(r.buffer.control[:r.controlLength])
	switch {
	case r.length == 0:
		return fds, io.EOF
	case r.flags&unix.MSG_TRUNC != 0:
		return fds, fmt.Errorf("packet: got more than %d bytes, limit %d: %w", r.length, MaxMessageSize,
			shuffle.ErrProtocol)
	case rightsErr != nil:
		return fds, fmt.Errorf("%w: %w", shuffle.ErrProtocol, rightsErr)
	case r.flags&unix.MSG_CTRUNC != 0 && c.noDescriptors:
		return fds, fmt.Errorf("got file descriptors beside a packet, want none: %w", shuffle.ErrProtocol)
	}
	if err := proto.Unmarshal(r.buffer.packet[:r.length], msg); err != nil {
		return fds, fmt.Errorf("%w: packet of %d bytes is no such message: %w", shuffle.ErrProtocol, r.length, err)
	}
	if r.flags&unix.MSG_CTRUNC != 0 {
		return fds, fmt.Errorf("got only %d of its descriptors: %w", len(fds), ErrDescriptorsLost)
	}
	return fds, nil
}

// RefuseDescriptors makes Receive take no descriptors: the kernel closes those
// that come, and a packet with some gives an error that wraps
// shuffle.ErrProtocol. To be called before the first Receive.
func (c *Conn) RefuseDescriptors() {
	if c.Check() == nil {
		c.noDescriptors = true
	}
}

// StopReceive ends the Receive that waits and those that come.
func (c *Conn) StopReceive() {
	if c.Check() == nil {
		_ = c.socket.SetReadDeadline(time.Unix(1, 0))
	}
}

// PeerHasEnded reports whether nobody will receive any more. What the peer has sent
// before may still be received.
func (c *Conn) PeerHasEnded() (ended bool) {
	if c.Check() != nil {
		return true
	}
	_ = c.raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(poll, 0)
		ended = err == nil && n > 0 && poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return ended
}

// Unreceived returns how many bytes of memory the packets take that the peer has not
// received; 0 after Close.
func (c *Conn) Unreceived() (bytes int) {
	if c.Check() != nil {
		return 0
	}
	_ = c.raw.Control(func(fd uintptr) { bytes = unreceivedOf(int(fd)) })
	return bytes
}

func unreceivedOf(socket int) int {
	n, err := unix.IoctlGetInt(socket, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// isReady reports whether a socket has one of the events, or an end. A signal, as the
// runtime sends itself, is neither.
func isReady(fd uintptr, events int16) bool {
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: events}}
		if n, err := unix.Poll(poll, 0); err != unix.EINTR {
			return n != 0
		}
	}
}

// WaitForPacket waits until there is something to receive, or the peer's end. Close and
// StopReceive end it.
func (c *Conn) WaitForPacket() error {
	if err := c.Check(); err != nil {
		return err
	}
	err := c.raw.Read(func(fd uintptr) bool {
		return isReady(fd, unix.POLLIN)
	})
	if err != nil {
		return closedOr(err)
	}
	return nil
}

// waitForRoom waits until the socket takes a packet of any size but the largest.
// Close ends it.
func (c *Conn) waitForRoom() error {
	if err := c.Check(); err != nil {
		return err
	}
	err := c.raw.Write(func(fd uintptr) bool {
		return isReady(fd, unix.POLLOUT)
	})
	if err != nil {
		return closedOr(err)
	}
	return nil
}

// Close ends the connection; the peer sees it as io.EOF after it has received
// what was sent. It unblocks Send and Receive. Calls after the first do nothing
// and return nil.
func (c *Conn) Close() error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := c.socket.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}

// closedOr replaces the net package's error of a closed socket by the sentinel.
func closedOr(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("connection %w", shuffle.ErrClosed)
	}
	return err
}
