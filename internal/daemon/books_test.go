package daemon

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// greedyConfig is of a daemon whose unbounded partitions can grow to 1 MiB.
func greedyConfig() Config {
	c := serverConfig()
	c.FirstOrdinal = 0
	return c
}

// createUnbounded creates a partition that may grow to all of the memory.
func (c *rawClient) createUnbounded(id shuffle.PartitionID) *controlpb.PartitionCreated {
	c.t.Helper()
	msg := createMessage(id, 1)
	msg.GetCreatePartition().Type = uint32(shuffle.Pipelined)
	answer := c.ask(msg)
	require.NotNil(c.t, answer.GetPartitionCreated(), "%v", answer)
	return answer.GetPartitionCreated()
}

// mapFirst maps the first object that came with the last answer. The end of the
// test unmaps it if that was not done.
func (c *rawClient) mapFirst(size uint64, access memseg.Access) *memseg.Region {
	c.t.Helper()
	memfd, err := memseg.ReceiveMemfd(c.fds.Take(0), int64(size), "taken")
	require.NoError(c.t, err)
	region, err := memfd.Map(access, 0)
	require.NoError(c.t, err)
	require.NoError(c.t, memfd.Close())
	c.t.Cleanup(func() { _ = region.Close() })
	return region
}

// touch writes or reads a byte of each page from an offset on.
func touch(region *memseg.Region, from int64, write bool) (sum byte) {
	for i := int(from); i < region.Size(); i += minSegmentSize {
		if write {
			region.Bytes()[i] = 1
			continue // a look at it might bring back what was taken away meanwhile
		}
		sum += region.Bytes()[i]
	}
	return sum
}

func (s *testServer) eventually(text string, f func(now Snapshot) bool) {
	s.t.Helper()
	var last Snapshot
	if !assert.Eventually(s.t, func() bool { last = s.Snapshot(); return f(last) }, testPatience, time.Millisecond,
		text) {
		s.t.Fatalf("%+v, %d backed, %d withheld, totals %+v", last.Memory, last.BackedBytes, last.Pool.Withheld,
			last.Totals)
	}
}

// requireBooksBalance checks that the states of the budget add up to it.
func requireBooksBalance(t testing.TB, s Snapshot) {
	t.Helper()
	m := s.Memory
	require.Equal(t, int64(s.Pool.Total)*int64(s.SegmentSize), m.Free+m.Granted+m.Ended+m.Excess+m.LeftBehind+m.Earlier,
		"%+v", m)
}

func TestMemoryThatWasNeverGrantedIsTakenAwayAndItsUserLosesHisConnection(t *testing.T) {
	s := startServer(t, greedyConfig())
	c := s.greet()
	created := c.createUnbounded(shuffle.NewPartitionID())
	require.EqualValues(t, 256, created.PoolMax)
	region := c.mapFirst(created.RegionSize, memseg.ReadWrite)
	require.NotNil(t, c.ask(mappedMessage(created.Epoch)).GetAck())
	granted := s.Snapshot()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				touch(region, int64(region.Size())-128*minSegmentSize, true)
			}
		}
	}()
	c.requireKicked(shuffle.ErrProtocol, "bytes of its memory are in use that were never granted")
	close(stop)
	<-stopped
	s.eventually("it is all taken away", func(now Snapshot) bool {
		return now.BackedBytes == 0 && now.Memory.Excess == 0 && now.Memory.LeftBehind == 0
	})
	now := s.Snapshot()
	require.GreaterOrEqual(t, now.Totals.UngrantedBytes, uint64(128*minSegmentSize))
	require.Less(t, granted.BackedBytes, int64(64*minSegmentSize))
	requireBooksBalance(t, now)
	require.Equal(t, 1, now.Memory.LeftBehindObjects, "it is still mapped")
	require.NoError(t, region.Close())
	s.requireIdle()
	require.Zero(t, s.Snapshot().Memory.LeftBehindObjects)
}

// Each brought page counts against the budget as long as it is there.
func TestExcessIsTakenOffWhatIsLent(t *testing.T) {
	config := greedyConfig()
	config.AdmissionTimeout = -1
	s := startServer(t, config)
	s.books.book(func(b *bookTotals) { b.excess += 200*minSegmentSize - 1 })
	now := s.Snapshot()
	require.Equal(t, 200, now.Pool.Withheld)
	requireBooksBalance(t, now)
	c := s.greet()
	answer := c.ask(createMessage(shuffle.NewPartitionID(), 60))
	err := ipc.DecodeError(answer.GetError())
	require.ErrorIs(t, err, shuffle.ErrInsufficientBuffers)
	require.ErrorContains(t, err, "required 61, but only 56 available")
	require.ErrorContains(t, err, "the memory of 200 is held without a grant")
	s.books.book(func(b *bookTotals) { b.excess = 0 })
	require.NotNil(t, c.ask(createMessage(shuffle.NewPartitionID(), 60)).GetPartitionCreated())
}

func TestReaderThatReadsHolesBringsNothingForLong(t *testing.T) {
	s := startServer(t, greedyConfig())
	producer, consumer := s.greet(), s.greet()
	id := shuffle.NewPartitionID()
	created := producer.createUnbounded(id)
	require.NotNil(t, producer.ask(mappedMessage(created.Epoch)).GetAck())
	gate := consumer.openGate(1)
	require.NotNil(t, consumer.ask(addInputsMessage(gate, 0, id, 0)).GetAck())
	consumer.note(func(m *controlpb.ServerMessage) bool { return m.GetInputReady() != nil })
	region := consumer.mapFirst(created.RegionSize, memseg.ReadOnly)
	before := s.Snapshot().BackedBytes
	require.Zero(t, touch(region, int64(region.Size())-128*minSegmentSize, false))
	s.eventually("holes that were read are taken away", func(now Snapshot) bool {
		return now.Totals.UngrantedBytes > 0 && now.BackedBytes == before && now.Memory.Excess == 0
	})
	require.NoError(t, region.Close())
}

func TestWhatIsKeptAfterClosingIsPunchedAndStaysBooked(t *testing.T) {
	s := startServer(t, greedyConfig())
	c := s.greet()
	created := c.createUnbounded(shuffle.NewPartitionID())
	region := c.mapFirst(created.RegionSize, memseg.ReadWrite)
	require.NotNil(t, c.ask(mappedMessage(created.Epoch)).GetAck())
	c.tell(
		&controlpb.ClientMessage{
			Body: &controlpb.ClientMessage_ClosePartition{
				ClosePartition: &controlpb.ClosePartition{Epoch: created.Epoch},
			},
		},
	)
	s.eventually("it is left behind, without memory", func(now Snapshot) bool {
		return now.Memory.LeftBehindObjects == 1 && now.BackedBytes == 0 && now.Pool.Used == 0 && now.Pool.Grants == 0
	})
	control := s.Snapshot().ControlBytes
	require.Positive(t, control, "its booking stays")
	for range 3 {
		before := s.Snapshot().Totals.UngrantedBytes
		touch(region, 0, true) // what comes between the two halves of a look is taken away uncounted
		s.eventually("what is brought back is taken away", func(now Snapshot) bool {
			return now.Totals.UngrantedBytes > before && now.BackedBytes == 0 && now.Memory.LeftBehind == 0
		})
		requireBooksBalance(t, s.Snapshot())
	}
	require.NoError(t, region.Close())
	c.leave()
	s.requireIdle()
}

// A producer or a reader that is about to hear of the end stores in its words once more.
func TestWordsOfWhatWasGivenUpAreNoMemoryThatWasNotGranted(t *testing.T) {
	s := startServer(t, greedyConfig())
	memfd, err := memseg.CreateMemfd("given up", 4*pageSize)
	require.NoError(t, err)
	region, err := memfd.Map(memseg.ReadWrite, 0)
	require.NoError(t, err)
	l := &leftBehind{name: "given up", memfd: memfd, takes: []byteRange{{0, 4 * pageSize}}, control: 2 * pageSize,
		since: time.Now()}
	for pages, want := range map[int64]int64{1: 0, 2: 0, 3: pageSize, 4: 2 * pageSize} {
		for i := range pages {
			region.Bytes()[i*pageSize] = 1
		}
		excess, fresh, settled := s.books.again(l, time.Now())
		require.False(t, settled)
		require.Equal(t, pages*pageSize, excess)
		require.Equal(t, want, fresh)
		require.Zero(t, l.excess(), "it is taken away nevertheless")
	}
	require.NoError(t, region.Close())
	require.NoError(t, memfd.Close())
}

// Gates and doorbells are given back in whole, so they count until then.
func TestKeptGateStaysBooked(t *testing.T) {
	s := startServer(t, greedyConfig())
	c := s.greet()
	answer := c.ask(openGateMessage(1000))
	region := c.mapFirst(answer.GetGateOpened().GetRegionSize(), memseg.ReadWrite)
	c.fds.Close()
	booked := s.Snapshot().ControlBytes
	require.NotNil(t, c.ask(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_CloseGate{
		CloseGate: &controlpb.CloseGate{GateId: answer.GetGateOpened().GetGateId()},
	}}).GetAck())
	now := s.Snapshot()
	require.Equal(t, booked, now.ControlBytes)
	require.Equal(t, 1, now.Memory.LeftBehindObjects)
	require.NoError(t, region.Close())
	s.requireIdle()
}

// A vanishedReader has lost its connection and still maps the first ten segments of a
// partition, whose producer is connected.
type vanishedReader struct {
	id            shuffle.PartitionID
	producer      *rawClient
	created       *controlpb.PartitionCreated
	written, read *memseg.Region
	firstSegment  int // where the segments begin
}

func (s *testServer) leaveAReader() vanishedReader {
	t := s.t
	t.Helper()
	producer, consumer := s.greet(), s.greet()
	id := shuffle.NewPartitionID()
	v := vanishedReader{id: id, producer: producer, created: producer.createUnbounded(id)}
	v.written = producer.mapFirst(v.created.RegionSize, memseg.ReadWrite)
	require.NotNil(t, producer.ask(mappedMessage(v.created.Epoch)).GetAck())
	producer.tell(wantMessage(v.created.Epoch, 10))
	producer.note(func(m *controlpb.ServerMessage) bool { return m.GetPoolResized() != nil })
	v.firstSegment = v.written.Size() - int(v.created.PoolMax)*minSegmentSize
	copy(v.written.Bytes()[v.firstSegment:], "still there")
	gate := consumer.openGate(1)
	require.NotNil(t, consumer.ask(addInputsMessage(gate, 0, id, 0)).GetAck())
	consumer.note(func(m *controlpb.ServerMessage) bool { return m.GetInputReady() != nil })
	v.read = consumer.mapFirst(v.created.RegionSize, memseg.ReadOnly)
	consumer.leave()
	return v
}

// Whoever is gone with its connection may be reading on.
func TestMemoryOfAReaderThatVanishedIsNotTakenAway(t *testing.T) {
	s := startServer(t, greedyConfig())
	v := s.leaveAReader()
	v.producer.leave()
	require.NoError(t, v.written.Close())
	s.eventually("only its reader has it",
		func(now Snapshot) bool { return len(now.Partitions) == 0 && now.Gates == 0 })
	now := s.Snapshot()
	require.Equal(t, int64(now.Pool.Used)*minSegmentSize, now.Memory.LeftBehind, "it is charged as before")
	require.Positive(t, now.Pool.Used)
	require.Zero(t, now.Memory.Granted)
	require.Zero(t, now.Pool.Required, "nothing is promised to it")
	requireBooksBalance(t, now)
	require.Zero(t, touch(v.read, int64(v.read.Size())-128*minSegmentSize, false))
	s.eventually("what was not granted is taken away", func(now Snapshot) bool {
		return now.Totals.UngrantedBytes > 0 && now.Memory.LeftBehind == int64(now.Pool.Used)*minSegmentSize
	})
	require.Equal(t, "still there", string(v.read.Bytes()[v.firstSegment:][:11]))
	require.NoError(t, v.read.Close())
	s.requireIdle()
}

// Who reads on looks at the header when it finds zeros, so the page with it goes
// first, in a step of its own.
func TestHeaderIsTakenAwayBeforeAllElse(t *testing.T) {
	s := startServer(t, greedyConfig())
	v := s.leaveAReader()
	regions := s.liveRegions()
	require.Len(t, regions, 1)
	regions[0].mu.Lock()
	takes, stays := regions[0].whatMayBeTaken(false)
	regions[0].mu.Unlock()
	require.Zero(t, stays)
	require.Equal(t, []byteRange{{0, pageSize}, {pageSize, int64(v.read.Size())}}, takes)

	presence := memseg.NewPresence(v.read)
	require.True(t, presence.Holds())
	require.NoError(t, s.partitions.Withdraw(v.id, uint32(os.Geteuid()), shuffle.Principal{}, "by the test"))
	s.eventually("it is taken away", func(Snapshot) bool { return !presence.Holds() })
	require.NoError(t, v.read.Close())
	require.NoError(t, v.written.Close())
	v.producer.leave()
	s.requireIdle()
}

// Nor by the shrinking of an ended partition, whose producer is still connected.
func TestEndedPartitionKeepsWhatAReaderThatVanishedMayRead(t *testing.T) {
	s := startServer(t, greedyConfig())
	v := s.leaveAReader()
	require.NotNil(t, v.producer.ask(releaseMessage(v.created.Epoch)).GetAck())
	held := s.Snapshot().Memory.Ended
	require.Positive(t, held)
	for range 2 * endLooks {
		for _, r := range s.liveRegions() {
			s.lookAtRegion(r)
		}
	}
	require.Equal(t, held, s.Snapshot().Memory.Ended)
	require.Equal(t, "still there", string(v.read.Bytes()[v.firstSegment:][:11]))
	v.producer.leave()
	require.NoError(t, v.written.Close())
	require.NoError(t, v.read.Close())
	s.requireIdle()
}

func TestStrictIsolationBooksWhatTheKernelKeeps(t *testing.T) {
	config := greedyConfig()
	config.Isolation = StrictIsolation
	s := startServer(t, config)
	c := s.greet()
	created := c.createUnbounded(shuffle.NewPartitionID())
	region := c.mapFirst(created.RegionSize, memseg.ReadWrite)
	require.NotNil(t, c.ask(mappedMessage(created.Epoch)).GetAck())
	c.tell(wantMessage(created.Epoch, 200))
	for have := uint32(0); have < 200; {
		resized := c.note(func(m *controlpb.ServerMessage) bool { return len(m.GetPoolResized().GetGranted()) > 0 }).
			GetPoolResized()
		for _, r := range resized.Granted {
			have += r.Last - r.First + 1
		}
	}
	c.tell(returnMessage(created.Epoch, &controlpb.SegmentRange{First: 0, Last: 199}))
	require.NotNil(t, c.ask(listMessage()).GetPartitionList())
	require.GreaterOrEqual(t, s.Snapshot().Pool.Used, 200, "the kernel keeps their memory, so they stay charged")

	c.tell(wantMessage(created.Epoch, 100))
	again := c.note(func(m *controlpb.ServerMessage) bool { return len(m.GetPoolResized().GetGranted()) > 0 }).
		GetPoolResized()
	require.Zero(t, again.Granted[0].First, "the region has its own again")

	touch(region, int64(region.Size())-40*minSegmentSize, true)
	c.requireKicked(shuffle.ErrProtocol, "never granted")
	s.eventually("it cannot be taken away, and is booked", func(now Snapshot) bool {
		return now.Memory.LeftBehindObjects == 1 && now.Memory.LeftBehind > 230*minSegmentSize
	})
	requireBooksBalance(t, s.Snapshot())
	require.NoError(t, region.Close())
	s.requireIdle()
	require.Zero(t, s.Snapshot().Pool.Withheld)
}

func TestCountersOfAHostileClientAreBoundedByWhatCanBe(t *testing.T) {
	s := startServer(t, greedyConfig())
	producer, consumer := s.greet(), s.greet()
	started := time.Now()
	id := shuffle.NewPartitionID()
	created := producer.createUnbounded(id)
	region := producer.mapFirst(created.RegionSize, memseg.ReadWrite)
	require.NotNil(t, producer.ask(mappedMessage(created.Epoch)).GetAck())
	answer := consumer.ask(openGateMessage(1))
	gate := consumer.mapFirst(answer.GetGateOpened().GetRegionSize(), memseg.ReadWrite)
	for _, lie := range []uint64{1 << 20, 1<<62 - 1, 1 << 63, 1<<64 - 1, 13_500_000_000_000_000_000, 0} {
		for offset := 512; offset < 4096; offset += 8 { // all counters, and all else of the first page
			region.Word(offset).Store(lie)
			gate.Word(offset).Store(lie)
		}
		for offset := 4096; offset < 4096+512; offset += 8 { // the cursors of the queue
			region.Word(offset).Store(lie)
		}
		now := s.Snapshot().Totals
		most := boundsOf(time.Since(started))
		require.LessOrEqual(t, now.ConsumerWakeUps, most.wakeUps)
		require.LessOrEqual(t, uint64(now.ConsumerIdle), most.nanos)
		require.LessOrEqual(t, now.ProducerWakeUps, most.wakeUps)
		require.LessOrEqual(t, uint64(now.BackPressured), most.nanos)
		require.LessOrEqual(t, now.Records, most.events)
		require.LessOrEqual(t, now.BuffersOut, most.events)
		require.LessOrEqual(t, now.BytesOut, most.bytes)
		row, err := s.partitions.Row(id, nil, shuffle.Principal{}, 1)
		require.NoError(t, err)
		row.Host.(*hostedRegion).fillIn(&row.PartitionInfo)
		require.LessOrEqual(t, row.SubpartitionInfo[0].BuffersPublished, boundsOf(time.Since(started)).events)
	}
	require.NoError(t, region.Close())
	require.NoError(t, gate.Close())
	before := s.Snapshot().Totals
	producer.leave()
	consumer.leave()
	s.requireIdle()
	after := s.Snapshot().Totals
	require.GreaterOrEqual(t, after.Records, before.Records, "totals never go back")
	require.LessOrEqual(t, after.Records, boundsOf(time.Since(started)).events)
}

func TestCheckedCounterTakesInWhatCanBe(t *testing.T) {
	var c checkedCounter
	for _, row := range []struct{ raw, most, want uint64 }{
		{10, 100, 10},
		{60, 100, 60},
		{1<<64 - 1, 100, 100}, // a lie
		{1<<64 - 1, 200, 100}, // which counts once
		{5, 200, 100},         // went back
		{25, 200, 120},        // and goes on from there
		{25, 50, 120},         // never less
	} {
		c.take(row.raw, row.most, 0)
		require.Equal(t, row.want, c.counted, "%+v", row)
	}
}

func TestCheckedCounterThatIsTooLowNowAndThenCountsNothingTwice(t *testing.T) {
	var c checkedCounter
	for _, row := range []struct{ raw, want uint64 }{{10, 10}, {9, 10}, {7, 10}, {12, 12}, {9, 12}, {8, 12}, {9, 13}} {
		c.take(row.raw, 100, 3)
		require.Equal(t, row.want, c.counted, "%+v", row)
	}
}
