package daemon

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// fullServer returns a server of 18 segments, and a client whose partition may use
// them all and has them.
func fullServer(t *testing.T, timeout time.Duration) (s *testServer, rich *rawClient,
	created *controlpb.PartitionCreated, name shuffle.PartitionID) {
	config := serverConfig()
	config.Memory = 18 * 4096
	config.AdmissionTimeout = timeout
	s = startServer(t, config)
	rich = s.greet()
	name = shuffle.NewPartitionID()
	created = rich.create(name, 1)
	require.NotNil(t, rich.ask(mappedMessage(created.Epoch)).GetAck())
	require.Len(t, rich.take(created, 18), 18)
	return s, rich, created, name
}

func poolSize(m *controlpb.ServerMessage) uint32 { return m.GetPoolResized().GetPoolSize() }

func isResized(m *controlpb.ServerMessage) bool { return m.GetPoolResized() != nil }

func (s *testServer) requireWaiting(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.Snapshot().Pool.Waiting == n }, testPatience, time.Millisecond)
}

func TestCreationWaitsForTheSurplusOfOthersAndThenHasWhatItRequires(t *testing.T) {
	s, rich, first, _ := fullServer(t, time.Hour)
	poor := s.greet()
	id := poor.begin(createMessage(shuffle.NewPartitionID(), 3))
	size := poolSize(rich.note(isResized))
	require.EqualValues(t, 14, size, "all but what the second one requires")
	require.NotNil(t, poor.ask(listMessage()).GetPartitionList(), "the client goes on meanwhile")
	rich.tell(returnMessage(first.Epoch, &controlpb.SegmentRange{First: 15, Last: 17}))
	require.NotNil(t, rich.ask(listMessage()).GetPartitionList())
	s.requireWaiting(1)
	rich.tell(returnMessage(first.Epoch, &controlpb.SegmentRange{First: 14, Last: 14}))
	second := poor.answer(id).GetPartitionCreated()
	require.NotNil(t, second)
	rich.tell(wantMessage(first.Epoch, 4))
	require.NotNil(t, rich.ask(listMessage()).GetPartitionList(), "what came back is not lent again")
	require.Len(t, poor.take(second, 4), 4)
	require.Equal(t, 18, s.Snapshot().Pool.Used)
	rich.leave()
	poor.leave()
	s.requireIdle()
}

func TestUserWhoFillsTheMemoryLeavesTheOthersTheirs(t *testing.T) {
	config := serverConfig()
	config.Memory = 64 * 4096
	config.AllowedUIDs = []uint32{2001, 2002}
	s := startServer(t, config)
	rich := s.greetAs(2001)
	filled := rich.createUnbounded(shuffle.NewPartitionID())
	require.NotNil(t, rich.ask(mappedMessage(filled.Epoch)).GetAck())
	require.Len(t, rich.take(filled, 56), 56)
	rich.tell(wantMessage(filled.Epoch, 8))
	require.NotNil(t, rich.ask(listMessage()).GetPartitionList())
	require.Equal(t, 8, s.Snapshot().Pool.Available)

	poor := s.greetAs(2002)
	created := poor.create(shuffle.NewPartitionID(), 3)
	require.Len(t, poor.take(created, 4), 4, "what it requires, a sixteenth")
	poor.leave()
	rich.leave()
	s.requireIdle()
}

// A user who holds all there is, and gives nothing back, leaves another one enough to
// work with, and is not lent it by making more partitions.
func TestUserWhoComesLaterIsLentMoreThanHisPartitionsRequire(t *testing.T) {
	config := serverConfig()
	config.Memory = 256 * 4096
	config.AllowedUIDs = []uint32{2001, 2002}
	s := startServer(t, config)
	rich := s.greetAs(2001)
	filled := rich.createUnbounded(shuffle.NewPartitionID())
	require.NotNil(t, rich.ask(mappedMessage(filled.Epoch)).GetAck())
	require.Len(t, rich.take(filled, 224), 224, "all but an eighth")
	for range 3 {
		more := rich.createUnbounded(shuffle.NewPartitionID())
		require.NotNil(t, rich.ask(mappedMessage(more.Epoch)).GetAck())
	}

	poor := s.greetAs(2002)
	created := poor.createUnbounded(shuffle.NewPartitionID())
	require.NotNil(t, poor.ask(mappedMessage(created.Epoch)).GetAck())
	require.EqualValues(t, 2+214/2, created.PoolSize, "half of the surplus, though the other has four partitions")
	require.Len(t, poor.take(created, 13), 13,
		"of 24 that are kept and that nobody requires, as many as are left, with what it requires itself")
	poor.tell(wantMessage(created.Epoch, 8))
	require.NotNil(t, poor.ask(listMessage()).GetPartitionList())
	require.Equal(t, 256-224-13, s.Snapshot().Pool.Available)
	poor.leave()
	rich.leave()
	s.requireIdle()
}

func TestCreationsUnderOneRequestAreRefused(t *testing.T) {
	s, rich, _, _ := fullServer(t, time.Hour)
	c := s.greet()
	first := createMessage(shuffle.NewPartitionID(), 3)
	id := c.begin(first)
	s.requireWaiting(1)
	second := createMessage(shuffle.NewPartitionID(), 3)
	second.RequestId = id
	c.tell(second)
	require.ErrorIs(t, ipc.DecodeError(c.answer(id).GetError()), shuffle.ErrProtocol)
	c.leave()
	s.requireWaiting(0) // or the first would be nobody's and wait on
	rich.leave()
	s.requireIdle()
}

func TestCreationThatWaitsInVainSaysWhoHoldsTheMemory(t *testing.T) {
	s, rich, _, name := fullServer(t, time.Millisecond)
	poor := s.greet()
	id := shuffle.NewPartitionID()
	refused := ipc.DecodeError(poor.ask(createMessage(id, 3)).GetError())
	require.ErrorIs(t, refused, shuffle.ErrInsufficientBuffers)
	require.EqualError(t, refused,
		fmt.Sprintf("create partition %s: insufficient number of network buffers: required 4, but only 0 available: "+
			"of 18 segments of 4096 bytes (--memory, --segment-size), 18 are in use and 0 more reserved for partitions that require them; "+
			"most are held by: partition %s (running) 18. Have those read, released or closed, let unread ones expire earlier (--retention), "+
			"wait longer (--admission-timeout, 1ms), or raise --memory", id, name))
	require.Len(t, s.Snapshot().Partitions, 1, "nothing is left of it")
	require.EqualValues(t, 1, s.Snapshot().Rejects["insufficient_buffers"])

	rich.leave()
	require.NotNil(t, poor.ask(createMessage(id, 3)).GetPartitionCreated(), "not even its name is spent")
	poor.leave()
	s.requireIdle()
}

func TestRefusalDoesNotNameThePartitionsOfOtherUsers(t *testing.T) {
	s, rich, _, name := fullServer(t, time.Millisecond)
	stranger := &session{server: s.Server, who: shuffle.Principal{UID: 4711, GID: 4711}}
	c := creation{session: stranger, region: &hostedRegion{server: s.Server}}
	text := c.describe(shuffle.ErrInsufficientBuffers).Error()
	require.Contains(t, text, "most are held by: another user's partition 18.")
	require.NotContains(t, text, name.String())
	rich.leave()
	s.requireIdle()
}

func TestAbandonedCreationLeavesNoTrace(t *testing.T) {
	for _, row := range []struct {
		name    string
		abandon func(c *rawClient, request uint64)
	}{
		{"by its client", func(c *rawClient, request uint64) {
			c.tell(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_AbandonCreation{
				AbandonCreation: &controlpb.AbandonCreation{CreationRequestId: request},
			}})
			require.ErrorIs(c.t, ipc.DecodeError(c.answer(request).GetError()), shuffle.ErrClosed)
		}},
		{"by the end of its client", func(c *rawClient, _ uint64) { c.leave() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, rich, first, _ := fullServer(t, time.Hour)
			poor := s.greet()
			id := shuffle.NewPartitionID()
			request := poor.begin(createMessage(id, 3))
			require.EqualValues(t, 14, poolSize(rich.note(isResized)))
			row.abandon(poor, request)
			s.requireWaiting(0)
			require.Eventually(t, func() bool { return len(s.Snapshot().Partitions) == 1 }, testPatience,
				time.Millisecond)
			require.Equal(t, 18, s.Snapshot().Partitions[0].PoolSize, "it may have all again")

			rich.tell(returnMessage(first.Epoch, &controlpb.SegmentRange{First: 2, Last: 17}))
			again := s.greet()
			require.NotNil(t, again.ask(createMessage(id, 3)).GetPartitionCreated())
			again.leave()
			rich.leave()
			s.requireIdle()
		})
	}
}

func TestAbandoningWhatDoesNotWaitDoesNothing(t *testing.T) {
	s := startServer(t, serverConfig())
	c := s.greet()
	c.create(shuffle.NewPartitionID(), 1)
	c.tell(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_AbandonCreation{
		AbandonCreation: &controlpb.AbandonCreation{CreationRequestId: c.nextID},
	}})
	require.Len(t, c.ask(listMessage()).GetPartitionList().Partitions, 1)
	c.leave()
	s.requireIdle()
}

// The memory that a new attempt requires may be that of the one that it replaces.
func TestNewAttemptGetsTheMemoryOfTheOneThatItFences(t *testing.T) {
	s, rich, first, id := fullServer(t, time.Hour)
	next := createMessage(id, 1)
	next.GetCreatePartition().Attempt = 1
	again := s.greet()
	request := again.begin(next)
	released := rich.note(func(m *controlpb.ServerMessage) bool { return m.GetPartitionReleased() != nil })
	require.ErrorIs(t, ipc.DecodeError(released.GetPartitionReleased().GetError()), shuffle.ErrFenced)
	rich.tell(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_ClosePartition{
		ClosePartition: &controlpb.ClosePartition{Epoch: first.Epoch},
	}})
	created := again.answer(request).GetPartitionCreated()
	require.NotNil(t, created)
	require.Len(t, again.take(created, 18), 18)
	rich.leave()
	again.leave()
	s.requireIdle()
}

func TestCreationThatIsFencedWhileItWaitsIsToldSo(t *testing.T) {
	s, rich, _, _ := fullServer(t, time.Hour)
	id := shuffle.NewPartitionID()
	older, newer := s.greet(), s.greet()
	waits := older.begin(createMessage(id, 1))
	s.requireWaiting(1)
	next := createMessage(id, 1)
	next.GetCreatePartition().Attempt = 1
	waitsToo := newer.begin(next)
	require.ErrorIs(t, ipc.DecodeError(older.answer(waits).GetError()), shuffle.ErrFenced)
	s.requireWaiting(1)
	rich.leave()
	require.NotNil(t, newer.answer(waitsToo).GetPartitionCreated())
	older.leave()
	newer.leave()
	s.requireIdle()
}

func TestServerClosesWhileCreationsWait(t *testing.T) {
	s, _, _, _ := fullServer(t, time.Hour)
	poor := s.greet()
	for range 3 {
		poor.begin(createMessage(shuffle.NewPartitionID(), 1))
	}
	s.requireWaiting(3)
	require.NoError(t, s.Close())
}

func TestDrainingRefusesCreationsThatWait(t *testing.T) {
	s, rich, _, _ := fullServer(t, time.Hour)
	poor := s.greet()
	request := poor.begin(createMessage(shuffle.NewPartitionID(), 1))
	s.requireWaiting(1)
	s.StartDraining()
	rich.leave()
	require.ErrorIs(t, ipc.DecodeError(poor.answer(request).GetError()), shuffle.ErrDraining)
	poor.leave()
	s.requireIdle()
}

func TestUserMayNotTakeAllPlacesToWaitIn(t *testing.T) {
	s, rich, _, _ := fullServer(t, time.Hour)
	poor := s.greet()
	for range mostWaitingPerUID {
		poor.begin(createMessage(shuffle.NewPartitionID(), 1))
	}
	s.requireWaiting(mostWaitingPerUID)
	refused := ipc.DecodeError(poor.answer(poor.begin(createMessage(shuffle.NewPartitionID(), 1))).GetError())
	require.ErrorIs(t, refused, shuffle.ErrInsufficientBuffers)
	s.requireWaiting(mostWaitingPerUID)
	poor.leave()
	s.requireWaiting(0)
	require.Empty(t, s.admissions.perUID)
	rich.leave()
	s.requireIdle()
}

func TestRefusedPartitionIsLogged(t *testing.T) {
	var logged syncBuffer
	config := serverConfig()
	config.AdmissionTimeout = -1
	config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	s := startServer(t, config)
	c := s.greet()
	const refusals = 100
	for range refusals {
		refused := ipc.DecodeError(c.ask(createMessage(shuffle.NewPartitionID(), 1000)).GetError())
		require.ErrorIs(t, refused, shuffle.ErrInsufficientBuffers)
	}
	require.Contains(t, logged.String(), "required 1001, but only 256 available")
	require.Less(t, strings.Count(logged.String(), "partition refused"), refusals/2, "not for each of them")
	c.leave()
	s.requireIdle()
}

func TestServerThatDoesNotWaitRefusesAtOnce(t *testing.T) {
	s, rich, _, _ := fullServer(t, -1)
	refused := ipc.DecodeError(rich.ask(createMessage(shuffle.NewPartitionID(), 1)).GetError())
	require.ErrorIs(t, refused, shuffle.ErrInsufficientBuffers)
	rich.leave()
	s.requireIdle()
}

// An ended partition holds what it was given and is promised nothing more.
func TestEndedPartitionReservesNothing(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(c *rawClient, epoch uint64)
	}{
		{"finished", func(c *rawClient, epoch uint64) { require.NotNil(c.t, c.ask(finishMessage(epoch)).GetAck()) }},
		{"failed", func(c *rawClient, epoch uint64) {
			require.NotNil(c.t, c.ask(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_FailPartition{
				FailPartition: &controlpb.FailPartition{Epoch: epoch, Cause: "a test"},
			}}).GetAck())
		}},
		{"released", func(c *rawClient, epoch uint64) {
			require.NotNil(c.t, c.ask(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_ReleasePartition{
				ReleasePartition: &controlpb.ReleasePartition{Epoch: epoch},
			}}).GetAck())
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := startServer(t, serverConfig())
			c := s.greet()
			created := c.create(shuffle.NewPartitionID(), 100)
			require.NotNil(t, c.ask(mappedMessage(created.Epoch)).GetAck())
			require.Len(t, c.take(created, 7), 7)
			require.Equal(t, 101-7, s.Snapshot().Pool.Reserved)
			row.end(c, created.Epoch)
			now := s.Snapshot().Pool
			require.Equal(t, [3]int{}, [3]int{now.Reserved, now.Required, now.Grants})
			c.tell(wantMessage(created.Epoch, 3))
			require.NotNil(t, c.ask(listMessage()).GetPartitionList())
			require.LessOrEqual(t, s.Snapshot().Pool.Used, now.Used, "it gets no more")
			require.LessOrEqual(t, now.Used, 7, "what nobody will read is soon taken back")
		})
	}
}

func TestIdlePartitionsCostNoSegments(t *testing.T) {
	config := serverConfig()
	config.Memory = 5 * 1001 * 4096
	config.Limits.ControlMemory = 1 << 40
	s := startServer(t, config)
	c := s.greet()
	for range 5 {
		c.create(shuffle.NewPartitionID(), 1000)
	}
	now := s.Snapshot()
	require.Equal(t, 0, now.Pool.Used)
	require.Equal(t, 5*1001, now.Pool.Reserved)
	queues := int64(0)
	for _, row := range s.partitions.Rows() {
		queues += queueBytes(&row.Host.(*hostedRegion).layout)
	}
	require.Equal(t, queues, now.BackedBytes, "no segment")
	c.leave()
	s.requireIdle()
}

func TestProducerHearsOfItsSizeWhenItMatters(t *testing.T) {
	config := serverConfig()
	config.Memory = 24 * 4096
	s := startServer(t, config)
	first, second := s.greet(), s.greet()
	created := first.create(shuffle.NewPartitionID(), 1)
	require.EqualValues(t, 18, created.PoolSize)
	require.Len(t, first.take(created, 3), 3)
	require.EqualValues(t, 12, second.create(shuffle.NewPartitionID(), 1).PoolSize)
	require.NotNil(t, first.ask(listMessage()).GetPartitionList())
	require.Empty(t, first.notes, "it has less than it may have, whatever that is")
	first.tell(wantMessage(created.Epoch, 1))
	require.EqualValues(t, 12, poolSize(first.note(isResized)), "with the next segments")

	require.Len(t, first.take(created, 8), 8)
	first.tell(wantMessage(created.Epoch, 1))
	require.NotNil(t, first.ask(listMessage()).GetPartitionList())
	require.Empty(t, first.notes)
	second.leave()
	resized := first.note(isResized).GetPoolResized()
	require.EqualValues(t, 18, resized.PoolSize, "it waits for that")
	require.Equal(t, 13, s.Snapshot().Pool.Used)
	first.leave()
	s.requireIdle()
}

// A user whose reader hangs with an ended partition has its memory counted as its own, so
// that it leaves others theirs, and an operator can take it away.
func TestUserWhoseEndedPartitionIsKeptByAReaderLeavesTheOthersTheirs(t *testing.T) {
	config := serverConfig()
	config.Memory = 64 * 4096
	config.AllowedUIDs = []uint32{2001, 2002}
	config.AdmissionTimeout = -1
	s := startServer(t, config)
	rich, hangs := s.greetAs(2001), s.greetAs(2001)
	id := shuffle.NewPartitionID()
	filled := rich.createUnbounded(id)
	region := rich.mapFirst(filled.RegionSize, memseg.ReadWrite)
	layout, err := memseg.DecodePartitionHeader(region.Bytes(), int64(region.Size()))
	require.NoError(t, err)
	require.NotNil(t, rich.ask(mappedMessage(filled.Epoch)).GetAck())
	gate := hangs.openGate(1)
	require.NotNil(t, hangs.ask(addInputsMessage(gate, 0, id, 0)).GetAck())
	hangs.note(func(m *controlpb.ServerMessage) bool { return m.GetInputReady() != nil })
	queue := memseg.NewQueueWriter(region, &layout, 0, memseg.NewEventSlots(region))
	for _, segment := range rich.take(filled, 56) {
		require.NoError(t, queue.PublishBuffer(memseg.Descriptor{Type: memseg.DataBuffer, Segment: segment}))
		queue.Advance(0, 1, nil)
	}
	require.NotNil(t, rich.ask(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_FailPartition{
		FailPartition: &controlpb.FailPartition{Epoch: filled.Epoch, Cause: "enough"},
	}}).GetAck())
	rich.tell(
		&controlpb.ClientMessage{
			Body: &controlpb.ClientMessage_ClosePartition{
				ClosePartition: &controlpb.ClosePartition{Epoch: filled.Epoch},
			},
		},
	)
	require.NoError(t, region.Close())
	s.eventually("it has ended, and its reader has it", func(now Snapshot) bool {
		return now.Memory.Ended == 56*4096 && now.Memory.Granted == 0 && len(now.Partitions) == 1 &&
			now.Partitions[0].Readers == 1
	})

	refused := ipc.DecodeError(rich.ask(createMessage(shuffle.NewPartitionID(), 7)).GetError())
	require.ErrorIs(t, refused, shuffle.ErrInsufficientBuffers, "what is left is kept for others")
	require.ErrorContains(t, refused, "which has released nothing for")

	poor := s.greetAs(2002)
	created := poor.create(shuffle.NewPartitionID(), 3)
	require.Len(t, poor.take(created, 4), 4)

	require.NoError(t, s.partitions.Withdraw(id, 2001, shuffle.Principal{}, "by the operator"))
	s.eventually("it is taken away, and back in the pool",
		func(now Snapshot) bool { return now.Memory.Ended == 0 && now.Pool.Used < 56 })
	require.NotNil(t, rich.ask(createMessage(shuffle.NewPartitionID(), 7)).GetPartitionCreated())
	hangs.leave()
	rich.leave()
	poor.leave()
	s.requireIdle()
}
