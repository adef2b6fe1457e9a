package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestHelloComesFirstAndOnce(t *testing.T) {
	s := startServer(t, serverConfig())
	c := s.connect()
	c.tell(&controlpb.ClientMessage{RequestId: 1,
		Body: &controlpb.ClientMessage_ListPartitions{ListPartitions: &controlpb.ListPartitions{}}})
	c.requireKicked(shuffle.ErrProtocol, "hello as the first message")

	c = s.greet()
	c.tell(&controlpb.ClientMessage{RequestId: 7,
		Body: &controlpb.ClientMessage_Hello{Hello: &controlpb.Hello{MinVersion: 1, MaxVersion: 1}}})
	c.requireKicked(shuffle.ErrProtocol, "a second hello")

	c = s.connect()
	c.tell(&controlpb.ClientMessage{RequestId: 1,
		Body: &controlpb.ClientMessage_Hello{Hello: &controlpb.Hello{MinVersion: 8, MaxVersion: 9}}})
	c.requireKicked(shuffle.ErrVersionMismatch, "the client speaks versions 8 to 9, the daemon version 1")

	config := serverConfig()
	config.HelloTimeout = time.Millisecond
	silent := startServer(t, config)
	silent.connect().requireKicked(shuffle.ErrProtocol, "no hello in time")
}

func TestMessagesOutsideTheProtocolEndTheSessionOnly(t *testing.T) {
	s := startServer(t, serverConfig())
	bystander := s.greet()
	kept := bystander.create(shuffle.NewPartitionID(), 2)
	require.NotNil(t, bystander.ask(mappedMessage(kept.Epoch)).GetAck())

	for name, test := range map[string]struct {
		send func(c *rawClient, epoch, gate uint64)
		text string
	}{
		"garbage": {func(c *rawClient, _, _ uint64) { c.sendBytes([]byte("GET / HTTP/1.1\r\n\r\n")) }, ""},
		"truncated": {func(c *rawClient, _, _ uint64) {
			packet, err := proto.Marshal(createMessage(shuffle.NewPartitionID(), 1))
			require.NoError(t, err)
			c.sendBytes(packet[:len(packet)-1])
		}, ""},
		"oversize": {func(c *rawClient, _, _ uint64) { c.sendBytes(make([]byte, ipc.MaxMessageSize+1)) }, ""},
		"empty body": {func(c *rawClient, _, _ uint64) { c.tell(&controlpb.ClientMessage{RequestId: 99}) },
			"does not know"},
		"no request id": {func(c *rawClient, _, _ uint64) {
			c.tell(createMessage(shuffle.NewPartitionID(), 1))
		}, "client_message.request_id: got 0"},
		"descriptors": {func(c *rawClient, _, _ uint64) {
			fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			require.NoError(t,
				c.Send(&controlpb.ClientMessage{RequestId: 99, Body: &controlpb.ClientMessage_ListPartitions{
					ListPartitions: &controlpb.ListPartitions{},
				}}, fd))
			require.NoError(t, unix.Close(fd))
		}, "got file descriptors beside a packet, want none"},
		"segment beyond the region": {func(c *rawClient, epoch, _ uint64) {
			c.tell(returnMessage(epoch, &controlpb.SegmentRange{First: 0, Last: math.MaxUint32}))
		}, "segments_returned.segments[0]: got last 4294967295"},
		"segment that it does not have": {func(c *rawClient, epoch, _ uint64) {
			c.tell(returnMessage(epoch, &controlpb.SegmentRange{First: 5, Last: 5}))
		}, "return segment 5"},
		"segment twice": {func(c *rawClient, epoch, _ uint64) {
			c.tell(returnMessage(epoch, &controlpb.SegmentRange{First: 0, Last: 1},
				&controlpb.SegmentRange{First: 1, Last: 1}))
		}, "segment 1 twice"},
		"segment returned again": {func(c *rawClient, epoch, _ uint64) {
			require.Equal(t, []int{0}, c.take(&controlpb.PartitionCreated{Epoch: epoch, PoolMax: 18}, 1))
			c.tell(returnMessage(epoch, &controlpb.SegmentRange{First: 0, Last: 0}))
			c.tell(returnMessage(epoch, &controlpb.SegmentRange{First: 0, Last: 0}))
		}, "return segment 0"},
		"range backwards": {func(c *rawClient, epoch, _ uint64) {
			c.tell(returnMessage(epoch, &controlpb.SegmentRange{First: 1, Last: 0}))
		}, "got first 1 above last 0"},
		"more than the region wanted": {func(c *rawClient, epoch, _ uint64) {
			c.tell(wantMessage(epoch, math.MaxUint32))
		}, "segments_wanted.count: got 4294967295"},
		"wanted without end": {func(c *rawClient, epoch, _ uint64) {
			for range 100 {
				_ = c.Send(wantMessage(epoch, 18)) // until it is kicked
			}
		}, "segments_wanted.count: got 18, want at most 36"},
		"another's partition": {func(c *rawClient, _, _ uint64) {
			c.tell(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_ClosePartition{ClosePartition: &controlpb.ClosePartition{Epoch: kept.Epoch}}})
		}, "close_partition.epoch"},
		"mapped twice": {func(c *rawClient, epoch, _ uint64) {
			require.NotNil(t, c.ask(mappedMessage(epoch)).GetAck())
			again := mappedMessage(epoch)
			again.RequestId = 99
			c.tell(again)
		}, "mapped while it is running"},
		"finished before it is mapped": {func(c *rawClient, epoch, _ uint64) {
			msg := finishMessage(epoch)
			msg.RequestId = 99
			c.tell(msg)
		}, "finished while it is created"},
		"closed twice": {func(c *rawClient, epoch, _ uint64) {
			for range 2 {
				c.tell(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_ClosePartition{ClosePartition: &controlpb.ClosePartition{Epoch: epoch}}})
			}
		}, "close_partition.epoch"},
		"channel without input": {func(c *rawClient, _, gate uint64) {
			c.tell(closeChannelMessage(gate, 1, true))
		}, "close_channel.channel: got 1"},
		"channel beyond the gate": {func(c *rawClient, _, gate uint64) {
			c.tell(closeChannelMessage(gate, math.MaxUint32, true))
		}, "close_channel.channel: got 4294967295"},
		"another's gate": {func(c *rawClient, _, gate uint64) {
			c.tell(closeChannelMessage(gate+1000, 0, true))
		}, "close_channel.gate_id"},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.greet()
			created, gate := c.create(shuffle.NewPartitionID(), 1), c.openGate(2)
			test.send(c, created.Epoch, gate)
			if test.text == "" { // the receiver cannot even tell which request it is
				for c.next() != nil {
				}
				<-c.served
			} else {
				c.requireKicked(shuffle.ErrProtocol, test.text)
			}
			require.NotNil(t, bystander.ask(listMessage()).GetPartitionList(), "nobody else is harmed")
			require.Eventually(t, func() bool { return len(s.Snapshot().Partitions) == 1 && s.Snapshot().Gates == 0 },
				testPatience, time.Millisecond)
		})
	}
	require.NotZero(t, s.Snapshot().Rejects["protocol"])
	bystander.leave()
	s.requireIdle()
}

func TestRequestsWithBadFieldsAreRefusedByName(t *testing.T) {
	s := startServer(t, serverConfig())
	c := s.greet()
	id := shuffle.NewPartitionID()
	epoch, gate := c.create(shuffle.NewPartitionID(), 1).Epoch, c.openGate(2)
	createWith := func(change func(m *controlpb.CreatePartition)) *controlpb.ClientMessage {
		msg := createMessage(id, 1)
		change(msg.GetCreatePartition())
		return msg
	}
	inputsWith := func(change func(m *controlpb.AddInputs)) *controlpb.ClientMessage {
		msg := addInputsMessage(gate, 0, id, 0)
		change(msg.GetAddInputs())
		return msg
	}
	for text, msg := range map[string]*controlpb.ClientMessage{
		"create_partition.partition_id: partition id of 15 bytes": createWith(func(m *controlpb.CreatePartition) { m.PartitionId = make([]byte, 15) }),
		"partition id is zero":                         createWith(func(m *controlpb.CreatePartition) { m.PartitionId = make([]byte, 16) }),
		"create_partition.type: got 257":               createWith(func(m *controlpb.CreatePartition) { m.Type = 257 }),
		"result partition type 0":                      createWith(func(m *controlpb.CreatePartition) { m.Type = 0 }),
		"create_partition.subpartitions: got 32769":    createWith(func(m *controlpb.CreatePartition) { m.Subpartitions = 32769 }),
		"Subpartitions is 0":                           createWith(func(m *controlpb.CreatePartition) { m.Subpartitions = 0 }),
		"create_partition.max_buffers_per_channel":     createWith(func(m *controlpb.CreatePartition) { m.MaxBuffersPerChannel = math.MaxUint32 }),
		"create_partition.on_consumer_lost: got 258":   createWith(func(m *controlpb.CreatePartition) { m.OnConsumerLost = 258 }),
		"FloatingBuffers is 4294967295":                createWith(func(m *controlpb.CreatePartition) { m.FloatingBuffers = math.MaxUint32 }),
		"open_gate.channels: got 0":                    openGateMessage(0),
		"add_inputs.gate_id":                           inputsWith(func(m *controlpb.AddInputs) { m.GateId = 12345 }),
		"add_inputs.inputs: got channels 2 to 3":       inputsWith(func(m *controlpb.AddInputs) { m.FirstChannel = 2 }),
		"channels 4294967295 to 4294967296":            inputsWith(func(m *controlpb.AddInputs) { m.FirstChannel = math.MaxUint32 }),
		"add_inputs.timeout_ms: got 18446744073709551": inputsWith(func(m *controlpb.AddInputs) { m.TimeoutMs = math.MaxUint64 }),
		"add_inputs.inputs[0].partition_id":            inputsWith(func(m *controlpb.AddInputs) { m.Inputs[0].PartitionId = nil }),
		"add_inputs.inputs[0].subpartition: got 32768": inputsWith(func(m *controlpb.AddInputs) { m.Inputs[0].Subpartition = 32768 }),
		"add_inputs.inputs[0].token: got 65 bytes":     inputsWith(func(m *controlpb.AddInputs) { m.Inputs[0].Token = fmt.Sprintf("%065d", 0) }),
		"list_partitions.after: got 3 bytes":           {Body: &controlpb.ClientMessage_ListPartitions{ListPartitions: &controlpb.ListPartitions{After: []byte("abc")}}},
		"inspect_partition.partition_id":               {Body: &controlpb.ClientMessage_InspectPartition{InspectPartition: &controlpb.InspectPartition{}}},
		"fail_partition.cause: got 4097 bytes":         {Body: &controlpb.ClientMessage_FailPartition{FailPartition: &controlpb.FailPartition{Epoch: epoch, Cause: fmt.Sprintf("%04097d", 0)}}},
		"close_gate.gate_id":                           {Body: &controlpb.ClientMessage_CloseGate{CloseGate: &controlpb.CloseGate{GateId: 12345}}},
	} {
		err := ipc.DecodeError(c.ask(msg).GetError())
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument, text)
		require.ErrorContains(t, err, text)
	}
	tooMany := ipc.DecodeError(c.ask(openGateMessage(math.MaxUint32)).GetError())
	require.ErrorIs(t, tooMany, shuffle.ErrQuotaExceeded)
	require.ErrorContains(t, tooMany, "--max-inputs-per-gate")
	for _, msg := range []*controlpb.ClientMessage{finishMessage(12345), mappedMessage(12345)} {
		require.ErrorIs(t, ipc.DecodeError(c.ask(msg).GetError()), shuffle.ErrPartitionNotFound)
	}

	require.NotNil(t, c.ask(addInputsMessage(gate, 1, id, 0)).GetAck())
	twice := ipc.DecodeError(c.ask(addInputsMessage(gate, 0, id, 0, 1)).GetError())
	require.ErrorContains(t, twice, "channel 1 without an input")
	c.leave()
	s.requireIdle()
}

func TestProducerGetsExactlyTheSegmentsThatItAsksFor(t *testing.T) {
	s := startServer(t, serverConfig())
	c := s.greet()
	created := c.create(shuffle.NewPartitionID(), 1)
	require.EqualValues(t, 2, created.PoolRequired)
	require.EqualValues(t, 18, created.PoolMax)
	require.Zero(t, s.Snapshot().Pool.Used, "it has asked for nothing")
	require.NotNil(t, c.ask(mappedMessage(created.Epoch)).GetAck())
	c.tell(wantMessage(created.Epoch, 5))
	c.tell(wantMessage(created.Epoch, 4))
	have := map[int]bool{}
	resized := func(m *controlpb.ServerMessage) bool { return m.GetPoolResized() != nil }
	collect := func(count int) {
		for len(have) < count {
			m := c.note(resized).GetPoolResized()
			granted, err := ipc.DecodeSegments("granted", m.Granted, 18)
			require.NoError(t, err)
			for _, segment := range granted {
				require.False(t, have[segment], "segment %d granted twice", segment)
				have[segment] = true
			}
			require.LessOrEqual(t, len(have), count, "more than it asked for")
		}
	}
	collect(9)
	info := s.Snapshot().Partitions[0]
	require.Equal(t, 9, info.SegmentsHeld)
	require.Equal(t, 9, s.Snapshot().Pool.Used)
	before := s.Snapshot().BackedBytes

	c.tell(returnMessage(created.Epoch, &controlpb.SegmentRange{First: 3, Last: 6},
		&controlpb.SegmentRange{First: 0, Last: 0}))
	for _, segment := range []int{0, 3, 4, 5, 6} {
		delete(have, segment)
	}
	require.NotNil(t, c.ask(listMessage()).GetPartitionList()) // it is handled
	require.Equal(t, 4, s.Snapshot().Pool.Used)
	require.Equal(t, before-5*4096, s.Snapshot().BackedBytes, "the kernel has the memory back")
	c.tell(wantMessage(created.Epoch, 18))
	collect(18) // no more than there are
	c.leave()
	s.requireIdle()
}

func TestGrantWithoutMemoryIsTriedAgain(t *testing.T) {
	var (
		short   atomic.Bool
		logged  syncBuffer
		noRoom  = fmt.Errorf("no room: %w", memseg.ErrNoMemory)
		limited = func(m *memseg.Memfd, offset, length int64) error {
			if short.Load() {
				return noRoom
			}
			return m.Commit(offset, length)
		}
	)
	config := serverConfig()
	config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	s := startServerWith(t, config, memoryCalls{limited, (*memseg.Memfd).Collapse, hugePageRate})
	c := s.greet()
	created := c.create(shuffle.NewPartitionID(), 1)
	short.Store(true)
	err := ipc.DecodeError(c.ask(createMessage(shuffle.NewPartitionID(), 1)).GetError())
	require.ErrorIs(t, err, shuffle.ErrNoMemory)
	require.Len(t, s.Snapshot().Partitions, 1, "nothing is left of it")
	require.Zero(t, s.Snapshot().Pool.Used)

	require.NotNil(t, c.ask(mappedMessage(created.Epoch)).GetAck())
	c.tell(wantMessage(created.Epoch, 18))
	require.Eventually(t, func() bool { return s.Snapshot().Totals.CommitFailures > 2 }, testPatience, time.Millisecond)
	require.Eventually(t, func() bool { return s.Snapshot().Pool.Used == 0 }, testPatience, time.Microsecond,
		"the budget is given back meanwhile")
	short.Store(false)
	held := 0
	for held < 18 {
		m := c.note(func(m *controlpb.ServerMessage) bool { return m.GetPoolResized() != nil }).GetPoolResized()
		granted, err := ipc.DecodeSegments("granted", m.Granted, 18)
		require.NoError(t, err)
		held += len(granted)
	}
	require.Contains(t, logged.String(), "no memory for a grant")
	require.Less(t, bytes.Count([]byte(logged.String()), []byte("no memory for a grant")), 100,
		"the log is not flooded")
	c.leave()
	s.requireIdle()
}

// A syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) lines() []string { return strings.Split(strings.TrimSpace(b.String()), "\n") }

func TestPeersGetWhatTheyMayWriteAndNoMore(t *testing.T) {
	for _, isolation := range []Isolation{DefaultIsolation, StrictIsolation} {
		config := serverConfig()
		config.Isolation = isolation
		s := startServer(t, config)
		producer, consumer := s.greet(), s.greet()
		id := shuffle.NewPartitionID()
		created := producer.create(id, 1)
		regionFD := producer.fds.Take(0)
		region, err := memseg.ReceiveMemfd(regionFD, int64(created.RegionSize), "region")
		require.NoError(t, err)
		mapped, err := region.Map(memseg.ReadWrite, 0)
		require.NoError(t, err)
		layout, err := memseg.DecodePartitionHeader(mapped.Bytes(), int64(mapped.Size()))
		require.NoError(t, err)
		require.Equal(t, [16]byte(id), layout.ID)
		require.Equal(t, created.Epoch, layout.Epoch)
		require.EqualValues(t, uint64(math.MaxUint64-4), layout.FirstOrdinal)
		require.NotNil(t, producer.ask(mappedMessage(created.Epoch)).GetAck())

		gate := consumer.openGate(1)
		gateFD, err := unix.FcntlInt(uintptr(consumer.fds[0]), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		require.NotNil(t, consumer.ask(addInputsMessage(gate, 0, id, 0)).GetAck())
		ready := consumer.note(func(m *controlpb.ServerMessage) bool { return m.GetInputReady() != nil }).
			GetInputReady()
		require.Equal(t, created.RegionSize, ready.RegionSize)
		require.Len(t, consumer.fds, 2)
		readOnly, err := memseg.ReceiveMemfd(consumer.fds.Take(0), int64(ready.RegionSize), "region")
		require.NoError(t, err)
		_, err = readOnly.Map(memseg.ReadWrite, 0)
		require.ErrorIs(t, err, unix.EACCES)
		view, err := readOnly.Map(memseg.ReadOnly, 0)
		require.NoError(t, err)
		again, err := region.Map(memseg.ReadWrite, 0)
		if isolation == StrictIsolation {
			require.ErrorIs(t, err, unix.EPERM, "not even its producer maps it again")
		} else {
			require.NoError(t, err)
			require.NoError(t, again.Close())
		}

		attached := producer.note(func(m *controlpb.ServerMessage) bool { return m.GetConsumerAttached() != nil }).
			GetConsumerAttached()
		require.Equal(t, created.Epoch, attached.Epoch)
		require.Equal(t, gate, attached.GateId)
		gateRegion, err := memseg.ReceiveMemfd(producer.fds.Take(0), int64(attached.GateRegionSize), "gate")
		require.NoError(t, err)
		_, err = gateRegion.Map(memseg.ReadWrite, 0)
		require.ErrorIs(t, err, unix.EACCES)
		words, err := gateRegion.Map(memseg.ReadOnly, 0)
		require.NoError(t, err)
		gateLayout, err := memseg.DecodeGateHeader(words.Bytes(), int64(words.Size()))
		require.NoError(t, err)
		channel := memseg.NewChannelWords(words, &gateLayout, 0)
		require.Equal(t, layout.FirstOrdinal, channel.Released.Load(), "set before anybody was told")
		require.Equal(t, layout.FirstOrdinal-1, channel.Want.Load())

		for _, m := range []*memseg.Memfd{region, readOnly, gateRegion} {
			require.NoError(t, m.Close())
		}
		for _, r := range []*memseg.Region{mapped, view, words} {
			require.NoError(t, r.Close())
		}
		require.NoError(t, unix.Close(gateFD))
		producer.leave()
		consumer.leave()
		s.requireIdle()
		require.NoError(t, s.Close())
	}
}
