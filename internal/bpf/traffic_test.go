package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Each round of an exchange writes exchangeBytes and reads them back.
const (
	exchangeRounds = 50
	exchangeBytes  = 3000
)

// An exchange is a channel and how its ends are made.
type exchange struct {
	channel Channel
	// open returns a descriptor to write to and one to read from.
	open func() (to, from int, err error)
}

var exchanges = map[string]exchange{
	"pipe":        {Pipe, openPipe},
	"unix-stream": {UnixStream, func() (int, int, error) { return openSocketPair(unix.SOCK_STREAM) }},
	"unix-packet": {UnixPacket, func() (int, int, error) { return openSocketPair(unix.SOCK_SEQPACKET) }},
	"tcp":         {TCP, openTCP},
	"shmem": {Shmem, func() (int, int, error) {
		fd, err := unix.MemfdCreate("bpf-test", unix.MFD_CLOEXEC)
		return twoOffsets(fd, err)
	}},
	"file": {File, func() (int, int, error) {
		fd, err := unix.Open(os.TempDir(), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		return twoOffsets(fd, err)
	}},
}

func openPipe() (to, from int, _ error) {
	var ends [2]int
	err := unix.Pipe2(ends[:], unix.O_CLOEXEC)
	return ends[1], ends[0], err
}

func openSocketPair(kind int) (to, from int, _ error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	return ends[1], ends[0], err
}

func openTCP() (to, from int, _ error) {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	if err := unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, 0, err
	}
	if err := unix.Listen(listener, 1); err != nil {
		return 0, 0, err
	}
	address, err := unix.Getsockname(listener)
	if err != nil {
		return 0, 0, err
	}
	if to, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, 0, err
	}
	if err := unix.Connect(to, address); err != nil {
		return 0, 0, err
	}
	from, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	return to, from, err
}

// twoOffsets opens a file again, so that reading and writing have their own offsets.
func twoOffsets(fd int, err error) (to, from int, _ error) {
	if err != nil {
		return 0, 0, err
	}
	from, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return fd, from, err
}

func init() {
	for name, e := range exchanges {
		parts[name] = func(s *stage) error { return exchangeBothWays(s, e) }
	}
	parts["nothing-to-read"] = readNothing
	parts["vectors"] = exchangeVectors
}

// exchangeBothWays fails if a call moves less than it was asked to.
func exchangeBothWays(s *stage, e exchange) error {
	to, from, err := e.open()
	if err != nil {
		return err
	}
	sent, received := bytes.Repeat([]byte{7}, exchangeBytes), make([]byte, exchangeBytes)
	s.begin()
	for range exchangeRounds {
		if n, err := unix.Write(to, sent); n != len(sent) {
			return fmt.Errorf("wrote %d bytes: %w", n, err)
		}
		if n, err := unix.Read(from, received); n != len(received) {
			return fmt.Errorf("read %d bytes: %w", n, err)
		}
	}
	return nil
}

func TestBytesThroughAChannelAreCounted(t *testing.T) {
	for _, source := range []struct {
		name    string
		options Options
	}{
		{"copy functions", Options{}},
		{"sizes asked of copy functions", Options{withoutTracing: true}},
		{"results of system calls", Options{withoutTracing: true, withoutProbes: true}},
	} {
		t.Run(source.name, func(t *testing.T) {
			tracer := openTracer(t, source.options, PartSyscalls)
			for name, e := range exchanges {
				t.Run(name, func(t *testing.T) { requireExchange(t, tracer, source.name, name, e.channel) })
			}
		})
	}
}

func requireExchange(t *testing.T, tracer *Tracer, source, name string, channel Channel) {
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(os.TempDir(), &fs))
	if channel == File && fs.Type == unix.TMPFS_MAGIC {
		t.Skipf("%s is in memory", os.TempDir())
	}
	play := rehearse(t, name)
	require.NoError(t, tracer.Watch(play.pid(0), Producer))
	counts := countsOf(t, tracer, play.perform)
	require.NoError(t, tracer.Unwatch(play.pid(0)))
	if counts.CopySource.String() != source {
		t.Logf("the figure is from the %s", counts.CopySource)
	}

	got := counts.Roles[Producer]
	const all = exchangeRounds * exchangeBytes
	require.EqualValues(t, exchangeRounds, got.Syscalls.Of(unix.SYS_WRITE), "calls of write")
	require.EqualValues(t, exchangeRounds, got.Syscalls.Of(unix.SYS_READ), "calls of read")
	require.Equal(t, ReturnedBytes{Read: all, Written: all}, *got.Returned)
	require.Equal(t, CopiedBytes{ToUser: all, FromUser: all}, *got.Copied)
	for other := range Channel(Channels) {
		var want ChannelCounts
		if other == channel {
			one := Traffic{Calls: exchangeRounds, Bytes: all}
			want = ChannelCounts{In: one, Out: one}
		}
		require.Equal(t, want, *got.Channels[other], "channel %s", other)
	}
	require.Zero(t, counts.Roles[Consumer].Syscalls.Total(), "calls of another role")
	require.Nil(t, counts.Roles[Other].Syscalls)
}

func readNothing(s *stage) error {
	_, from, err := openPipe()
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(from, true); err != nil {
		return err
	}
	s.begin()
	for range 3 {
		if _, err := unix.Read(from, make([]byte, 8)); !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("read an empty pipe: %w", err)
		}
	}
	_, err = unix.Read(-1, make([]byte, 8))
	if !errors.Is(err, unix.EBADF) {
		return fmt.Errorf("read no descriptor: %w", err)
	}
	return nil
}

func TestCallsThatMoveNothingAreEmpty(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls)
	play := rehearse(t, "nothing-to-read")
	require.NoError(t, tracer.Watch(play.pid(0), Daemon))
	got := countsOf(t, tracer, play.perform).Roles[Daemon]
	require.Equal(t, ChannelCounts{In: Traffic{Calls: 3, Empty: 3}}, *got.Channels[Pipe])
	require.Equal(t, ChannelCounts{In: Traffic{Calls: 1, Empty: 1}}, *got.Channels[OtherChannel])
	require.Equal(t, ReturnedBytes{}, *got.Returned)
}

// exchangeVectors uses the other calls that move bytes, each once.
func exchangeVectors(s *stage) error {
	to, from, err := openSocketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	file, _, err := exchanges["shmem"].open()
	if err != nil {
		return err
	}
	pipeTo, _, err := openPipe()
	if err != nil {
		return err
	}
	vector := [][]byte{make([]byte, 100), make([]byte, 50)}
	calls := []func() (int, error){
		func() (int, error) { return unix.Writev(to, vector) },
		func() (int, error) { return unix.Readv(from, vector) },
		func() (int, error) { return unix.SendmsgBuffers(to, vector, nil, nil, 0) },
		func() (int, error) {
			n, _, _, _, err := unix.RecvmsgBuffers(from, vector, nil, 0)
			return n, err
		},
		func() (int, error) { return 150, unix.Sendto(to, make([]byte, 150), 0, nil) },
		func() (int, error) {
			n, _, err := unix.Recvfrom(from, make([]byte, 150), 0)
			return n, err
		},
		func() (int, error) { return unix.Pwrite(file, make([]byte, 150), 0) },
		func() (int, error) { return unix.Pread(file, make([]byte, 150), 0) },
		func() (int, error) { return unix.Pwritev(file, vector, 0) },
		func() (int, error) { return unix.Preadv(file, vector, 0) },
		func() (int, error) { return unix.Sendfile(pipeTo, file, new(int64), 150) },
	}
	s.begin()
	for i, call := range calls {
		if n, err := call(); n != 150 {
			return fmt.Errorf("call %d moved %d bytes: %w", i, n, err)
		}
	}
	return nil
}

func TestEveryCallThatMovesBytesIsCounted(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls)
	play := rehearse(t, "vectors")
	require.NoError(t, tracer.Watch(play.pid(0), Consumer))
	got := countsOf(t, tracer, play.perform).Roles[Consumer]
	require.Equal(t, ReturnedBytes{Read: 5 * 150, Written: 5 * 150, Spliced: 150}, *got.Returned)
	three, two := Traffic{Calls: 3, Bytes: 3 * 150}, Traffic{Calls: 2, Bytes: 2 * 150}
	require.Equal(t, ChannelCounts{In: three, Out: three}, *got.Channels[UnixStream])
	require.Equal(t, ChannelCounts{In: two, Out: two}, *got.Channels[Shmem])
	require.Equal(t, ChannelCounts{}, *got.Channels[Pipe])
}
