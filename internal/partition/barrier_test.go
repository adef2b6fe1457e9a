package partition_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestBarrierBlocksUntilConsumptionIsResumed(t *testing.T) {
	for _, typ := range []memseg.DataType{
		memseg.AlignedCheckpointBarrier, memseg.TimeoutableAlignedCheckpointBarrier, memseg.RecoveryCompletion,
	} {
		for _, row := range []struct {
			name      string
			behind    func(s *stream)
			available bool // once resumed
			types     []memseg.DataType
		}{
			{"nothing behind it", func(*stream) {}, false, nil},
			{"an event", func(s *stream) { s.event(event) }, true, []memseg.DataType{event}},
			{"an open buffer", func(s *stream) { s.write(10) }, false, []memseg.DataType{data}},
			{"an open buffer, flushed", func(s *stream) { s.write(10); s.flush() }, true, []memseg.DataType{data}},
			{"a finished buffer", func(s *stream) { s.write(64) }, true, []memseg.DataType{data}},
			{"two finished buffers", func(s *stream) { s.write(128) }, true, []memseg.DataType{data, data}},
			{"the end", func(s *stream) { s.finish() }, true, []memseg.DataType{memseg.EndOfPartition}},
		} {
			t.Run(typ.String()+", "+row.name, func(t *testing.T) {
				overMemories(t, func(t *testing.T, memory linktest.Memory) {
					s := newStream(t, memory, 8, 64)
					s.write(10)
					s.event(typ)
					require.Equal(t, polled{10, data}, s.poll())
					require.Equal(t, polled{sizeOf(t, newBarrier(typ)), typ}, s.poll())
					row.behind(s)
					for range 2 {
						require.Equal(t, nothing, s.poll())
						require.False(t, s.c.IsAvailableBeyond(0))
					}
					require.NoError(t, s.c.ResumeConsumption())
					require.Equal(t, row.available, s.c.IsAvailableBeyond(0))
					_, types := drain(t, s.c.SubpartitionView)
					require.Equal(t, row.types, types)
				})
			})
		}
	}
}

func TestPriorityEventPassesABarrier(t *testing.T) {
	s := newStream(t, linktest.Heap, 8, 64)
	s.event(alignedEvent)
	s.write(64)
	s.event(event)
	require.Equal(t, polled{sizeOf(t, newBarrier(alignedEvent)), alignedEvent}, s.poll())
	s.event(priorityEvent)
	require.Equal(t, polled{sizeOf(t, newBarrier(priorityEvent)), priorityEvent}, s.poll())
	require.Equal(t, nothing, s.poll(), "what follows does not pass it")
}

func TestResumeWithoutABarrierIsAProtocolError(t *testing.T) {
	s := newStream(t, linktest.Heap, 8, 64)
	s.event(event)
	s.poll()
	err := s.c.ResumeConsumption()
	require.ErrorIs(t, err, shuffle.ErrProtocol)
	s.event(alignedEvent)
	s.poll()
	err = s.c.ResumeConsumption()
	require.NoError(t, err)
	err = s.c.ResumeConsumption()
	require.ErrorIs(t, err, shuffle.ErrProtocol)
}
