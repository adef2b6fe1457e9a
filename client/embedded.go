package client

import (
	"context"
	"errors"
	"time"

	"shuffled/internal/daemon"
	"shuffled/ipc"
)

// An EmbeddedConfig describes the daemon of Embedded. Memory is required; the zero value
// of every other field is a usable default.
type EmbeddedConfig struct {
	// Memory is how many bytes of segments the daemon may hand out.
	Memory int64
	// SegmentSize is the size of a segment in bytes, a power of two of at least 4 KiB; 32
	// KiB by default.
	SegmentSize int
	// Retention is how long a finished partition is kept while nobody reads it; 10 minutes
	// by default.
	Retention time.Duration
}

// Embedded runs a daemon inside this process and connects to it over a socket
// pair: no daemon, no socket in the file system, the same code path otherwise.
// Close of the client stops the daemon too. A field out of its range gives an error that
// wraps shuffle.ErrInvalidArgument. WithLogger is for both of them.
func Embedded(config EmbeddedConfig, opts ...Option) (*Client, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	server, err := daemon.NewServer(daemon.Config{
		Memory: config.Memory, SegmentSize: config.SegmentSize, Retention: config.Retention, Logger: o.log,
	})
	if err != nil {
		return nil, err
	}
	ours, theirs, err := ipc.Pair()
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeConn(theirs)
	}()
	return newClient(context.Background(), ours, o, func() error {
		err := server.Close()
		<-served
		return err
	})
}
