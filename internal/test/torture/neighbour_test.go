package torture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/client"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A neighbourPlan is what a neighbour is to do: a process of another user on the same
// host, hostile or careless, which never does what an honest worker does.
type neighbourPlan struct {
	Ways    []string      // what it does, one after the other at random
	Metrics string        // URL of the daemon's HTTP server
	For     time.Duration // how long; in some ways it ends earlier by itself
}

// Ways are what neighbours do, over and over. Each returns when it was refused, when it
// has done enough, or when ctx ends.
type ways map[string]func(ctx context.Context, plan neighbourPlan) error

var (
	hostileWays = ways{
		"sends garbage":                  sendGarbage,
		"asks and does not read":         askWithoutReading,
		"touches what was not granted":   touchEverything,
		"holds connections to /metrics":  holdHTTPConnections,
		"connects and says nothing":      connectInSilence,
		"looks for others' partitions":   probeNames,
		"rings and writes its own words": spoilOwnWords,
	}
	carelessWays = ways{
		"waits for inputs and is deaf": waitForInputs,
		"hoards segments":              hoardSegments,
		"keeps what it reads":          keepBuffers,
		"fails with long texts":        failWithLongTexts,
		"closes and keeps the memory":  closeAndKeep,
		"dies while it dumps core":     dumpCore,
	}
	// idleWays have nothing to do with the daemon.
	idleWays = ways{"computes": compute}
)

// wayTime is how long a neighbour goes one way that it knows several of.
const wayTime = 400 * time.Millisecond

// beNeighbour is a neighbour's process.
func beNeighbour(plan neighbourPlan) error {
	debug.SetTraceback("crash")
	ctx, cancel := context.WithTimeout(context.Background(), plan.For)
	defer cancel()
	all := ways{}
	for _, some := range []ways{hostileWays, carelessWays, idleWays} {
		maps.Copy(all, some)
	}
	turn := wayTime
	if len(plan.Ways) == 1 {
		turn = plan.For
	}
	for ctx.Err() == nil {
		soon, cancel := context.WithTimeout(ctx, turn)
		_ = all[plan.Ways[rand.IntN(len(plan.Ways))]](soon, plan) // it has to expect to be refused
		cancel()
		pause(ctx, 5*time.Millisecond)
	}
	return nil
}

// compute uses a processor and more memory than its first caches have.
func compute(ctx context.Context, _ neighbourPlan) error {
	numbers := make([]uint64, 1<<17)
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < 20*time.Millisecond; {
		for i := range numbers {
			numbers[i] += uint64(i)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func socketPath() string { return os.Getenv(client.SocketVariable) }

func sendGarbage(ctx context.Context, _ neighbourPlan) error {
	conn, err := net.Dial("unixpacket", socketPath())
	if err != nil {
		return err
	}
	defer conn.Close()
	packet := make([]byte, 1+rand.IntN(4000))
	for range 8 {
		for i := range packet {
			packet[i] = byte(rand.Uint32())
		}
		if _, err := conn.Write(packet); err != nil {
			return err
		}
	}
	return nil
}

func connectInSilence(ctx context.Context, _ neighbourPlan) error {
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	for range 500 {
		conn, err := net.Dial("unixpacket", socketPath())
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	pause(ctx, 300*time.Millisecond)
	return nil
}

// greet connects without the client library, which would be polite.
func greet(ctx context.Context) (*ipc.Conn, error) {
	conn, err := ipc.Dial(ctx, socketPath())
	if err != nil {
		return nil, err
	}
	_, _, err = ask(conn, 1, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_Hello{Hello: &controlpb.Hello{
		MinVersion: ipc.MinProtocolVersion, MaxVersion: ipc.MaxProtocolVersion, Features: uint64(ipc.SupportedFeatures),
		ClientName: "neighbour",
	}}})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// ask sends a request and returns its answer and the descriptors that came with it.
func ask(conn *ipc.Conn, id uint64, msg *controlpb.ClientMessage) (*controlpb.ServerMessage, ipc.FDs, error) {
	msg.RequestId = id
	if err := conn.Send(msg); err != nil {
		return nil, nil, err
	}
	for {
		answer := &controlpb.ServerMessage{}
		fds, err := conn.Receive(answer)
		if err != nil {
			return nil, nil, err
		}
		if answer.GetRequestId() == id {
			return answer, fds, ipc.DecodeError(answer.GetError())
		}
		fds.Close()
	}
}

func createRequest(subpartitions uint32) *controlpb.ClientMessage {
	id := shuffle.NewPartitionID()
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_CreatePartition{CreatePartition: &controlpb.CreatePartition{
			PartitionId: id[:], Type: uint32(shuffle.Pipelined), Subpartitions: subpartitions,
		}},
	}
}

func askWithoutReading(ctx context.Context, _ neighbourPlan) error {
	conn, err := greet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetSendTimeout(200 * time.Millisecond)
	for id := uint64(2); id < 6000 && ctx.Err() == nil; id++ {
		msg := createRequest(4)
		switch id % 3 {
		case 1:
			msg = &controlpb.ClientMessage{
				Body: &controlpb.ClientMessage_OpenGate{OpenGate: &controlpb.OpenGate{Channels: 4}},
			}
		case 2:
			msg = &controlpb.ClientMessage{
				Body: &controlpb.ClientMessage_ListPartitions{ListPartitions: &controlpb.ListPartitions{}},
			}
		}
		msg.RequestId = id
		if err := conn.Send(msg); err != nil {
			return err
		}
	}
	return nil
}

func waitForInputs(ctx context.Context, _ neighbourPlan) error {
	c, err := client.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	inputs := make([]shuffle.Input, 5000)
	for i := range inputs {
		inputs[i] = shuffle.Input{Partition: shuffle.NewPartitionID(), Subpartition: i % 7}
	}
	gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: inputs, Timeout: time.Hour})
	if err != nil {
		return err
	}
	pause(ctx, 200*time.Millisecond)
	return gate.Close()
}

func hoardSegments(ctx context.Context, _ neighbourPlan) error {
	c, err := client.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	record := make([]byte, 30_000)
	for ctx.Err() == nil {
		p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Type: shuffle.Pipelined,
			Subpartitions: 2})
		if err != nil {
			pause(ctx, 300*time.Millisecond)
			return err // the end of the connection gives everything up
		}
		w, err := writer.New(p, shuffle.Bytes{}, writer.Rebalance[[]byte]())
		if err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		for err == nil {
			err = w.Emit(soon, record)
		}
		cancel()
		defer w.Close()
	}
	return nil
}

func keepBuffers(ctx context.Context, _ neighbourPlan) error {
	c, err := client.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1})
	if err != nil {
		return err
	}
	defer p.Close()
	gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: p.ID()}}})
	if err != nil {
		return err
	}
	defer gate.Close()
	w, err := writer.New(p, shuffle.Bytes{}, writer.Forward[[]byte]())
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	for err == nil {
		err = w.Emit(soon, make([]byte, 20_000))
	}
	for range 4 {
		if b, ok, _ := gate.TryNext(); ok {
			defer b.Release()
		}
	}
	_ = w.Fail(ctx, errors.New("and its reader is hung"))
	pause(ctx, 300*time.Millisecond)
	return nil
}

func failWithLongTexts(ctx context.Context, _ neighbourPlan) error {
	c, err := client.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for range 200 {
		p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1,
			Name: strings.Repeat("n", 128)})
		if err != nil {
			return err
		}
		err = p.Fail(ctx, errors.New(strings.Repeat("a long stack trace ", 215)))
		if err := errors.Join(err, p.Close()); err != nil {
			return err
		}
	}
	return nil
}

// touch writes to every page of an object, granted or not.
func touch(fd int, size uint64) error {
	const page = 4096
	for at := int64(0); at < int64(size); at += page {
		if _, err := unix.Pwrite(fd, []byte{1}, at+page-1); err != nil {
			return err
		}
	}
	return nil
}

// createRaw creates a partition and returns the descriptors of its region and
// doorbell.
func createRaw(conn *ipc.Conn, id uint64) (*controlpb.PartitionCreated, ipc.FDs, error) {
	answer, fds, err := ask(conn, id, createRequest(2))
	if err != nil {
		return nil, nil, err
	}
	created := answer.GetPartitionCreated()
	if created == nil || len(fds) != 2 {
		fds.Close()
		return nil, nil, errors.New("not created")
	}
	return created, fds, nil
}

func touchEverything(ctx context.Context, _ neighbourPlan) error {
	conn, err := greet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for id := uint64(2); id < 6; id++ {
		created, fds, err := createRaw(conn, id)
		if err != nil {
			return err
		}
		defer fds.Close()
		if err := touch(fds[0], created.GetRegionSize()); err != nil {
			return err
		}
		pause(ctx, 50*time.Millisecond)
	}
	return nil
}

func closeAndKeep(ctx context.Context, _ neighbourPlan) error {
	conn, err := greet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	created, fds, err := createRaw(conn, 2)
	if err != nil {
		return err
	}
	defer fds.Close()
	err = conn.Send(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_ClosePartition{
		ClosePartition: &controlpb.ClosePartition{Epoch: created.GetEpoch()},
	}})
	for err == nil && ctx.Err() == nil {
		err = touch(fds[0], created.GetRegionSize())
		pause(ctx, 100*time.Millisecond)
	}
	return err
}

func dumpCore(ctx context.Context, _ neighbourPlan) error {
	c, err := client.Dial(ctx)
	if err != nil {
		return err
	}
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Type: shuffle.Pipelined,
		Subpartitions: 2})
	if err != nil {
		return errors.Join(err, c.Close())
	}
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	for err == nil {
		err = p.EmitRecord(soon, make([]byte, 10_000), 0)
	}
	core := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &core); err != nil {
		core.Cur, core.Max = 256<<20, 256<<20
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &core) // it dies in any case
	}
	return unix.Kill(os.Getpid(), unix.SIGABRT)
}

func holdHTTPConnections(ctx context.Context, plan neighbourPlan) error {
	address := strings.TrimPrefix(plan.Metrics, "http://")
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	for range 500 {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			break
		}
		held = append(held, conn)
		_, _ = conn.Write([]byte("GET /metrics HTTP/1.1\r\n"))
	}
	if answer, err := http.Get(plan.Metrics + "/metrics"); err == nil {
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	pause(ctx, 300*time.Millisecond)
	return nil
}

// probeNames asks for the partitions that honest workers use, in all ways there are.
func probeNames(ctx context.Context, _ neighbourPlan) error {
	c, err := client.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range 20 {
		id := honestPartition(i)
		if p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Attempt: math.MaxUint32,
			Subpartitions: 1}); err == nil {
			_ = p.EmitRecord(ctx, []byte("\x00\x00\x00\x06forged"), 0)
			_ = p.Finish(ctx)
			_ = p.Close()
		}
		gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}},
			Timeout: time.Millisecond})
		if err != nil {
			return err
		}
		if b, err := gate.Next(ctx); err == nil {
			if !bytes.Contains(b.Bytes(), []byte("forged")) { // another neighbour of the same user
				fmt.Fprintln(os.Stderr, "a foreign partition was read")
			}
			_ = b.Release()
		}
		_ = gate.Close()
		_, _ = c.Inspect(ctx, id)
	}
	return nil
}

// spoilOwnWords writes nonsense over a gate's region and both doorbells, which are a
// consumer's to write.
func spoilOwnWords(ctx context.Context, _ neighbourPlan) error {
	conn, err := greet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, fds, err := ask(conn, 2,
		&controlpb.ClientMessage{Body: &controlpb.ClientMessage_OpenGate{OpenGate: &controlpb.OpenGate{Channels: 8}}})
	if err != nil {
		return err
	}
	defer fds.Close()
	if len(fds) != 2 {
		return errors.New("no gate")
	}
	for range 20 {
		for i, size := range []uint64{answer.GetGateOpened().GetRegionSize(),
			answer.GetGateOpened().GetDoorbellSize()} {
			nonsense := bytes.Repeat([]byte{byte(rand.Uint32())}, int(size))
			if _, err := unix.Pwrite(fds[i], nonsense, 0); err != nil {
				return err
			}
		}
		pause(ctx, 10*time.Millisecond)
	}
	return nil
}
