package client

import (
	"context"
	"errors"

	"shuffled/ipc"
)

// Embedded runs a daemon inside this process and connects to it over a socket
// pair: no daemon, no socket in the file system, the same code path otherwise.
// Close of the client stops the daemon too.
func Embedded(config ipc.Config, opts ...Option) (*Client, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	server, err := ipc.NewServer(config)
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
