package ipc

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// A receiveBuffer takes in one packet. Connections share them, since most wait
// for one most of the time.
type receiveBuffer struct {
	packet  [MaxMessageSize]byte
	control [maxControlSize]byte
}

// maxControlSize holds the header of a control message, aligned, and MaxFDs
// descriptors.
const maxControlSize = unix.SizeofCmsghdr + (MaxFDs*4+7)/8*8

// receiveBuffers are kept for whoever receives next.
var receiveBuffers = make(bufferList, 16)

type bufferList chan *receiveBuffer

func (l bufferList) get() *receiveBuffer {
	select {
	case b := <-l:
		return b
	default:
		return new(receiveBuffer)
	}
}

func (l bufferList) put(b *receiveBuffer) {
	select {
	case l <- b:
	default:
	}
}

// A receivedPacket is a packet in a buffer, which goes back to receiveBuffers.
type receivedPacket struct {
	buffer                       *receiveBuffer
	length, controlLength, flags int
}

// receivePacket waits for a packet. Without an error the buffer is the caller's.
//
// A peer that ends with messages unread resets the connection, and the kernel
// reports that once, ahead of the packets that the peer had sent: they are still
// queued and come out after it.
func (c *Conn) receivePacket() (r receivedPacket, err error) {
	for range 2 {
		var callErr error
		err = c.raw.Read(func(fd uintptr) bool {
			c.spare.makeRoom(int(fd))
			r, callErr = receiveInto(int(fd), !c.noDescriptors)
			return callErr != unix.EAGAIN
		})
		if err == nil {
			err = callErr
		}
		if err == nil {
			c.spare.refill()
		}
		if !errors.Is(err, unix.ECONNRESET) {
			return r, err
		}
	}
	return r, io.EOF
}

// receiveInto takes a buffer for as long as there is a packet to put into it.
func receiveInto(fd int, descriptors bool) (r receivedPacket, err error) {
	r.buffer = receiveBuffers.get()
	var control []byte
	if descriptors {
		control = r.buffer.control[:]
	}
	for {
		r.length, r.controlLength, r.flags, _, err = unix.Recvmsg(fd, r.buffer.packet[:], control,
			unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		receiveBuffers.put(r.buffer)
		return receivedPacket{}, err
	}
	return r, nil
}
