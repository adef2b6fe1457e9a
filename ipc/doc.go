// Package ipc is the control plane between workers and the daemon: partitions
// are created, gates opened and descriptors of shared memory handed over on it;
// records never travel on it.
//
// A [Conn] carries one protobuf message (package controlpb) a packet over a
// SOCK_SEQPACKET Unix socket, and file descriptors beside it. A worker gets one
// from [Dial], the daemon from its listener through [NewConn], a process that
// runs both in itself from [Pair]. Who the peer is, the kernel says
// ([Conn.Peer]); that it has ended, the end of the socket says (io.EOF) and
// nothing else: no time-out takes a stopped or slow peer for a dead one.
//
// Nothing a peer sends is trusted: sizes and counts are checked before memory
// is allocated for them, descriptors that nobody expects are closed, and what
// does not fit the protocol is an error that wraps shuffle.ErrProtocol. A peer
// that does not read cannot block this process: it sends through an
// [Outbox], which ends the session when it is full.
//
// Both sides agree on a protocol version ([Negotiate]) and on features
// ([CommonFeatures]) first. Errors keep their identity across the socket
// ([EncodeError], [DecodeError]): errors.Is finds the sentinel of package
// shuffle that the other process returned.
package ipc
