// Package daemon is the process that owns the memory: it hosts partitions and gates, hands
// their descriptors to the workers that may have them, and takes everything back when a
// worker is gone. Records never pass through it.
//
// A [Server] accepts connections (package ipc) and has a session for each client: one
// goroutine that receives and one that sends. What clients may hold is booked before it is
// made (ledger.go), memory is granted to regions by the pool and taken back from those that
// do not use it (region_*.go), and who produces and consumes what is in package registry.
//
// Nothing a client sends is trusted, and no client waits for another one that does not
// read: each session sends through an [ipc.Outbox], and what is under way to one client is
// bounded (flight.go). Users that keep the daemon busy take turns (paces.go).
package daemon
