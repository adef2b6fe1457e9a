package ipc_test

import (
	"errors"
	"fmt"
	"log"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// A daemon answers a request with an error; the worker finds the sentinel in it.
func Example() {
	worker, daemon, err := ipc.Pair()
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	defer daemon.Close()

	request := &controlpb.ClientMessage{RequestId: 1, Body: &controlpb.ClientMessage_OpenGate{
		OpenGate: &controlpb.OpenGate{Channels: 4, Name: "join/0"},
	}}
	if err := worker.Send(request); err != nil {
		log.Fatal(err)
	}

	received := &controlpb.ClientMessage{}
	fds, err := daemon.Receive(received)
	if err != nil {
		log.Fatal(err)
	}
	fds.Close() // a request carries none
	refusal := fmt.Errorf("gate %q: 4 channels, limit 2: %w", received.GetOpenGate().GetName(),
		shuffle.ErrQuotaExceeded)
	answer := &controlpb.ServerMessage{RequestId: received.GetRequestId(), Body: &controlpb.ServerMessage_Error{
		Error: ipc.EncodeError(refusal),
	}}
	if err := daemon.Send(answer); err != nil {
		log.Fatal(err)
	}

	answered := &controlpb.ServerMessage{}
	if fds, err = worker.Receive(answered); err != nil {
		log.Fatal(err)
	}
	fds.Close()
	err = ipc.DecodeError(answered.GetError())
	fmt.Println(err)
	fmt.Println(errors.Is(err, shuffle.ErrQuotaExceeded))
	// Output:
	// gate "join/0": 4 channels, limit 2: quota exceeded
	// true
}
