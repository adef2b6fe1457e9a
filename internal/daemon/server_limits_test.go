package daemon

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

func TestConfigOutsideItsRangeIsNamed(t *testing.T) {
	for text, change := range map[string]func(c *Config){
		"Memory is 0":                       func(c *Config) { c.Memory = 0 },
		"Memory is -1":                      func(c *Config) { c.Memory = -1 },
		"SegmentSize is 2048":               func(c *Config) { c.SegmentSize = 2048 },
		"SegmentSize is 5000":               func(c *Config) { c.SegmentSize = 5000 },
		"FloatingTarget is -1":              func(c *Config) { c.FloatingTarget = -1 },
		"Isolation is 2":                    func(c *Config) { c.Isolation = 2 },
		"Retention is -1ns":                 func(c *Config) { c.Retention = -1 },
		"Limits.Partitions is -1":           func(c *Config) { c.Limits.Partitions = -1 },
		"Limits.InputsPerGate is 1048577":   func(c *Config) { c.Limits.InputsPerGate = 1<<20 + 1 },
		"Limits.MemoryPerUID is -5, want 1": func(c *Config) { c.Limits.MemoryPerUID = -5 },
	} {
		config := serverConfig()
		change(&config)
		_, err := NewServer(config)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument, text)
		require.ErrorContains(t, err, text)
	}
}

// Whatever step of a creation finds no descriptor, the answer says so and
// nothing is left.
func TestCreationWithoutDescriptorsNamesTheLimit(t *testing.T) {
	s := startServer(t, serverConfig())
	c := s.greet()
	c.create(shuffle.NewPartitionID(), 1)                      // whatever is opened on first use
	require.NotNil(t, c.ask(listMessage()).GetPartitionList()) // the daemon's copies are closed
	for name, msg := range map[string]func() *controlpb.ClientMessage{
		"partition": func() *controlpb.ClientMessage { return createMessage(shuffle.NewPartitionID(), 1) },
		"gate":      func() *controlpb.ClientMessage { return openGateMessage(1) },
	} {
		for free := range uint64(4) { // region, doorbell, and a copy of each
			answer := func() *controlpb.ServerMessage {
				defer leaktest.LeaveDescriptors(t, free)()
				return c.ask(msg())
			}()
			err := ipc.DecodeError(answer.GetError())
			require.ErrorIs(t, err, shuffle.ErrQuotaExceeded, "%s with %d descriptors", name, free)
			require.ErrorContains(t, err, "RLIMIT_NOFILE")
			require.Len(t, s.Snapshot().Partitions, 1)
			require.Zero(t, s.Snapshot().Gates)
		}
	}
	require.NotNil(t, c.ask(createMessage(shuffle.NewPartitionID(), 1)).GetPartitionCreated())
	c.leave()
	s.requireIdle()
}

func TestPanicEndsOneSessionOnly(t *testing.T) {
	config := serverConfig()
	config.OnAttach = func(time.Duration) { panic("broken hook") }
	s := startServer(t, config)
	producer, consumer := s.greet(), s.greet()
	id := shuffle.NewPartitionID()
	created := producer.create(id, 1)
	require.NotNil(t, producer.ask(mappedMessage(created.Epoch)).GetAck())
	gate := consumer.openGate(1)
	msg := addInputsMessage(gate, 0, id, 0)
	msg.RequestId = 99
	consumer.tell(msg)
	// Whoever was told last met it.
	ended, other := consumer, producer
	select {
	case <-consumer.served:
	case <-producer.served:
		ended, other = producer, consumer
	case <-time.After(time.Minute):
		require.Fail(t, "no session ended")
	}
	for ended.next() != nil {
	}
	for other == consumer && other.next().GetAck() == nil {
	}
	require.NotNil(t, other.ask(listMessage()).GetPartitionList())
	other.leave()
	s.requireIdle()
}

func TestAttachIsMeasuredOnceBothWereTold(t *testing.T) {
	config := serverConfig()
	var later atomic.Int64
	config.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	attached := make(chan time.Duration, 2)
	config.OnAttach = func(latency time.Duration) { attached <- latency }
	s := startServer(t, config)
	producer, consumer := s.greet(), s.greet()
	id := shuffle.NewPartitionID()
	created := producer.create(id, 1)
	require.NotNil(t, producer.ask(mappedMessage(created.Epoch)).GetAck())
	gate := consumer.openGate(1)

	// The consumer's outbox is held up, as by a client that does not read.
	s.mu.Lock()
	slow := s.gates[gate].session
	s.mu.Unlock()
	release := make(chan struct{})
	slow.notifyFunc(func() (*controlpb.ServerMessage, ipc.FDs, error) { <-release; return nil, nil, nil })
	msg := addInputsMessage(gate, 0, id, 0)
	msg.RequestId = 99
	consumer.tell(msg)
	producer.note(func(m *controlpb.ServerMessage) bool { return m.GetConsumerAttached() != nil })
	select {
	case <-attached:
		require.Fail(t, "the consumer was not told yet")
	default:
	}
	later.Store(int64(time.Hour))
	close(release)
	consumer.note(func(m *controlpb.ServerMessage) bool { return m.GetInputReady() != nil })
	require.GreaterOrEqual(t, <-attached, time.Hour)
	producer.leave()
	consumer.leave()
	s.requireIdle()
	require.Empty(t, attached, "it is measured once")
}

func TestTotalsNeverGoBack(t *testing.T) {
	attaches := 0
	config := serverConfig()
	config.OnAttach = func(latency time.Duration) {
		require.GreaterOrEqual(t, latency, time.Duration(0))
		attaches++
	}
	s := startServer(t, config)
	before := s.Snapshot().Totals
	for range 20 {
		producer, consumer := s.greet(), s.greet()
		id := shuffle.NewPartitionID()
		created := producer.create(id, 1)
		require.NotNil(t, producer.ask(mappedMessage(created.Epoch)).GetAck())
		gate := consumer.openGate(1)
		require.NotNil(t, consumer.ask(addInputsMessage(gate, 0, id, 0)).GetAck())
		consumer.note(func(m *controlpb.ServerMessage) bool { return m.GetInputReady() != nil })
		for range 3 {
			now := s.Snapshot().Totals
			require.GreaterOrEqual(t, now.PartitionsCreated, before.PartitionsCreated)
			require.GreaterOrEqual(t, now.BytesOut, before.BytesOut)
			require.GreaterOrEqual(t, now.ConsumerIdle, before.ConsumerIdle)
			before = now
		}
		producer.note(func(m *controlpb.ServerMessage) bool { return m.GetConsumerAttached() != nil })
		producer.leave()
		consumer.leave()
	}
	s.requireIdle()
	require.EqualValues(t, 20, s.Snapshot().Totals.PartitionsCreated)
	require.Equal(t, 20, attaches)
}
