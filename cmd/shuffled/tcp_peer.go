package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// tcpPeer names who is at the other end of a connection: on this host the user, or all
// of whom the kernel does not tell, such as those who have closed their end already;
// else the address. A user of this host has many addresses.
func tcpPeer(conn net.Conn) string {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	if remote.IP.IsLoopback() || remote.IP.Equal(local.IP) {
		if uid, err := uidOfSocket(remote.AddrPort(), local.AddrPort()); err == nil {
			return fmt.Sprintf("uid %d", uid)
		}
		return "this host"
	}
	return remote.IP.String()
}

// What include/uapi/linux/inet_diag.h lays out.
const (
	sockDiagByFamily   = 20
	netlinkHeaderSize  = 16
	inetDiagSocketSize = 48                           // struct inet_diag_sockid
	inetDiagUIDOffset  = 4 + inetDiagSocketSize + 3*4 // the inode follows
)

// uidOfSocket asks the kernel whose the TCP socket is that is bound to local and
// connected to remote, which is one of this host. A socket that was closed is
// nobody's.
func uidOfSocket(local, remote netip.AddrPort) (uid uint32, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("open a socket for socket diagnosis: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, inetDiagRequest(local, remote), 0,
		&unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask for the socket of %s: %w", local, err)
	}
	var answer [1024]byte
	n, _, err := unix.Recvfrom(fd, answer[:], unix.MSG_DONTWAIT) // it is there
	if err != nil {
		return 0, fmt.Errorf("ask for the socket of %s: %w", local, err)
	}
	body := answer[min(n, netlinkHeaderSize):n]
	if n < netlinkHeaderSize || binary.NativeEndian.Uint16(answer[4:]) != sockDiagByFamily ||
		len(body) < inetDiagUIDOffset+8 {
		return 0, fmt.Errorf("the kernel knows no socket of %s", local)
	}
	if inode := binary.NativeEndian.Uint32(body[inetDiagUIDOffset+4:]); inode == 0 { // the user it tells is 0 then
		return 0, fmt.Errorf("the socket of %s is closed", local)
	}
	return binary.NativeEndian.Uint32(body[inetDiagUIDOffset:]), nil
}

// inetDiagRequest is a netlink message with a struct inet_diag_req_v2.
func inetDiagRequest(local, remote netip.AddrPort) []byte {
	family, from, to := byte(unix.AF_INET6), local.Addr().AsSlice(), remote.Addr().AsSlice()
	if local.Addr().Unmap().Is4() {
		family, from, to = unix.AF_INET, local.Addr().Unmap().AsSlice(), remote.Addr().Unmap().AsSlice()
	}
	const size = netlinkHeaderSize + 8 + inetDiagSocketSize
	m := binary.NativeEndian.AppendUint32(nil, size)
	m = binary.NativeEndian.AppendUint16(m, sockDiagByFamily)
	m = binary.NativeEndian.AppendUint16(m, unix.NLM_F_REQUEST)
	m = append(m, make([]byte, 8)...) // sequence number and sender
	m = append(m, family, unix.IPPROTO_TCP, 0, 0)
	m = binary.NativeEndian.AppendUint32(m, math.MaxUint32) // in every state
	m = binary.BigEndian.AppendUint16(m, local.Port())
	m = binary.BigEndian.AppendUint16(m, remote.Port())
	m = append(append(m, from...), make([]byte, 16-len(from))...)
	m = append(append(m, to...), make([]byte, 16-len(to))...)
	m = binary.NativeEndian.AppendUint32(m, 0) // on any interface
	return binary.NativeEndian.AppendUint64(m, math.MaxUint64)
}
