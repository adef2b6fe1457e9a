package bpf

import "fmt"

// A Channel is a kind of kernel object that bytes go through.
type Channel uint8

// The channels.
const (
	// UnixStream is a Unix socket of type SOCK_STREAM.
	UnixStream Channel = iota
	// UnixPacket is a Unix socket of type SOCK_SEQPACKET, as the control socket of
	// shuffled is, or SOCK_DGRAM.
	UnixPacket
	// TCP is a TCP socket, over IPv4 or IPv6.
	TCP
	// Pipe is a pipe or a FIFO.
	Pipe
	// Shmem is a file in memory, a memfd or on tmpfs, that is read or written by
	// descriptor. What goes through its mappings is no business of the kernel.
	Shmem
	// File is any other file.
	File
	// OtherChannel is whatever else can be read or written: other sockets, event
	// descriptors, terminals and devices.
	OtherChannel

	// Channels is the number of channels.
	Channels = iota
)

var channelNames = [Channels]string{"unix stream", "unix packet", "tcp", "pipe", "shmem", "file", "other"}

// String returns the channel in lower case.
func (c Channel) String() string {
	if int(c) < len(channelNames) {
		return channelNames[c]
	}
	return fmt.Sprintf("channel %d", uint8(c))
}

// ChannelCounts are the two directions of a channel: the system calls that
// ReturnedBytes counts as read and written, by what their descriptor leads to.
type ChannelCounts struct {
	In, Out Traffic
}

// Traffic is what went through a channel in one direction.
type Traffic struct {
	// Calls counts the calls that have returned, Empty those among them that moved
	// nothing: errors, the end, and descriptors that were not ready.
	Calls, Empty uint64
	Bytes        uint64
}

func (t Traffic) sub(earlier Traffic) Traffic {
	return Traffic{
		Calls: rise(t.Calls, earlier.Calls),
		Empty: rise(t.Empty, earlier.Empty),
		Bytes: rise(t.Bytes, earlier.Bytes),
	}
}
