package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// A child is this test binary in another process, to be killed.
const (
	childRole      = "SHUFFLED_TEST_ROLE"
	childPartition = "SHUFFLED_TEST_PARTITION"

	childQuota, childBuffers = 3, 40
)

// runChild plays a role until it is killed. It writes a line when it has begun.
func runChild(role string) {
	fail := func(err error) {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	id, err := shuffle.ParsePartitionID(os.Getenv(childPartition))
	if err != nil {
		fail(err)
	}
	ctx := context.Background()
	c, err := Dial(ctx) // by $SHUFFLED_SOCKET
	if err != nil {
		fail(err)
	}
	switch role {
	case "stage producer":
		if err := runStageProducer(ctx, c, id); err != nil {
			fail(err)
		}
	case "careless writers":
		if err := runCarelessWriters(ctx, c); err != nil {
			fail(err)
		}
	case "producer":
		p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 1})
		if err != nil {
			fail(err)
		}
		for i := 0; ; i++ {
			if err := p.EmitRecord(ctx, framed(fmt.Sprint(i)), 0); err != nil {
				fail(err)
			}
			if i == 0 {
				fmt.Println("begun")
			}
		}
	case "producer with a quota":
		p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 1,
			MaxBuffersPerChannel: childQuota})
		if err != nil {
			fail(err)
		}
		fmt.Println("begun")
		for i := range childBuffers { // one a buffer
			if err := p.EmitRecord(ctx, framed(fmt.Sprintf("%04090d", i)), 0); err != nil {
				fail(err)
			}
		}
		if err := p.Finish(ctx); err != nil {
			fail(err)
		}
	case "consumer":
		gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}}})
		if err != nil {
			fail(err)
		}
		for i := 0; ; i++ {
			b, err := gate.Next(ctx)
			if err != nil {
				fail(err)
			}
			if err := b.Release(); err != nil {
				fail(err)
			}
			if i == 0 {
				fmt.Println("begun")
			}
		}
	}
}

// startChild starts a process in a role and waits until it has begun. The
// returned function kills it.
func startChild(t *testing.T, role, socket string, id shuffle.PartitionID) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, childPartition+"="+id.String(), SocketVariable+"="+socket)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "begun\n" {
		kill()
		t.Fatalf("child %s: %q, %v", role, line, err)
	}
	return kill
}

func TestKilledProducerLeavesWhatItHadCommitted(t *testing.T) {
	d := startDaemon(t, testConfig())
	consumer := d.dial(t)
	for range 10 {
		id := shuffle.NewPartitionID()
		gate := openOne(t, consumer, id, 0)
		kill := startChild(t, "producer", d.path, id)
		time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, kill)
		data, err := nextError(t, gate)
		require.ErrorIs(t, err, shuffle.ErrProducerLost)
		require.NoError(t, gate.Close())
		// What arrived is a prefix of the stream; its last record may be cut.
		var want strings.Builder
		for i := 0; want.Len() < len(data); i++ {
			want.Write(framed(fmt.Sprint(i)))
		}
		require.NotEmpty(t, data)
		require.True(t, want.String()[:len(data)] == data, "%d bytes are not what was written", len(data))
		d.requireIdle(t)
	}
	require.Zero(t, d.Snapshot().BackedBytes)
}

func TestKilledConsumerFreesItsProducer(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer := d.dial(t)
	for range 10 {
		s := spec(1)
		p := create(t, producer, s)
		emitted := make(chan error, 1)
		go func() {
			for {
				if err := p.EmitRecord(context.Background(), framed("record"), 0); err != nil {
					emitted <- err
					return
				}
			}
		}()
		kill := startChild(t, "consumer", d.path, s.ID)
		time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond) // any moment will do
		kill()
		require.ErrorIs(t, <-emitted, shuffle.ErrConsumerLost)
		require.NoError(t, p.Close())
		d.requireIdle(t)
	}
}
