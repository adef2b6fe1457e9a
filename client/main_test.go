package client

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/daemon"
	"shuffled/internal/test/leaktest"
	"shuffled/shuffle"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		runChild(role)
		return
	}
	leaktest.Main(m)
}

// firstOrdinal makes every cursor of a test wrap.
const firstOrdinal = 1<<64 - 5

// patience bounds what a test waits for; none depends on its length.
const patience = 30 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A testDaemon is a server in this process that listens on a real socket.
type testDaemon struct {
	*daemon.Server
	path string
}

func testConfig() daemon.Config {
	return daemon.Config{Memory: 16 << 20, SegmentSize: 4096, FloatingTarget: 128 << 10, FirstOrdinal: firstOrdinal,
		Version: "test"}
}

func startDaemon(t testing.TB, config daemon.Config) *testDaemon {
	t.Helper()
	leaktest.Check(t)
	server, err := daemon.NewServer(config)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unixpacket", path)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			require.ErrorIs(t, err, shuffle.ErrClosed)
		}
		require.NoError(t, <-served)
	})
	return &testDaemon{Server: server, path: path}
}

// dial connects a client that the end of the test closes.
func (d *testDaemon) dial(t testing.TB, opts ...Option) *Client {
	t.Helper()
	c, err := Dial(testContext(t), append([]Option{WithSocket(d.path)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			require.ErrorIs(t, err, shuffle.ErrClosed)
		}
	})
	return c
}

// requireIdle waits until the daemon holds nothing for anybody.
func (d *testDaemon) requireIdle(t testing.TB) {
	t.Helper()
	for t := testContext(t); ; time.Sleep(time.Millisecond) {
		s := d.Snapshot()
		if len(s.Partitions) == 0 && s.Gates == 0 && s.ControlBytes == 0 && s.Pool.Used == 0 && s.Pool.Grants == 0 {
			return
		}
		if t.Err() != nil {
			panic(fmt.Sprintf("the daemon still holds something: %+v", s))
		}
	}
}

func spec(subpartitions int) shuffle.PartitionSpec {
	return shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: subpartitions}
}

func gateOf(id shuffle.PartitionID, subpartitions ...int) shuffle.GateSpec {
	var s shuffle.GateSpec
	for _, sub := range subpartitions {
		s.Inputs = append(s.Inputs, shuffle.Input{Partition: id, Subpartition: sub})
	}
	return s
}

// framed returns a record with its length prefix.
func framed(payload string) []byte {
	n := len(payload)
	return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, payload...)
}

// readAll collects the records of a gate by channel until it ends.
func readAll(t testing.TB, gate shuffle.InputGate) map[int][]string {
	t.Helper()
	got := make(map[int][]string)
	stream := make(map[int][]byte)
	for {
		b, err := gate.Next(testContext(t))
		if err != nil {
			require.Equal(t, "EOF", err.Error())
			break
		}
		if !b.IsEvent() {
			stream[b.Channel] = append(stream[b.Channel], b.Bytes()...)
		}
		require.NoError(t, b.Release())
	}
	for channel, bytes := range stream {
		for len(bytes) > 0 {
			require.GreaterOrEqual(t, len(bytes), 4)
			n := int(bytes[0])<<24 | int(bytes[1])<<16 | int(bytes[2])<<8 | int(bytes[3])
			require.LessOrEqual(t, n, len(bytes)-4)
			got[channel] = append(got[channel], string(bytes[4:4+n]))
			bytes = bytes[4+n:]
		}
	}
	return got
}
