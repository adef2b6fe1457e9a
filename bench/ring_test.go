package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heapRing and mappedRing return both sides of a new ring. The race detector
// sees the first.
func heapRing(*testing.T) (producer, consumer []byte) {
	mem := make([]byte, ringSize)
	return mem, mem
}

func mappedRing(t *testing.T) (producer, consumer []byte) {
	file, err := createRing()
	require.NoError(t, err)
	defer file.Close()
	producer, unmapProducer, err := mapRing(file)
	require.NoError(t, err)
	consumer, unmapConsumer, err := mapRing(file)
	require.NoError(t, err)
	t.Cleanup(unmapProducer)
	t.Cleanup(unmapConsumer)
	return producer, consumer
}

var ringMemories = map[string]func(*testing.T) (producer, consumer []byte){"heap": heapRing, "mmap": mappedRing}

// sourceOfTurns returns a source that goes round the ring several times.
func sourceOfTurns(size int) *recordSource {
	source := newRecordSource(size, 0)
	source.runFor(0)
	source.untilClock = 3 * ringSize
	return source
}

func TestRecordsOfAllSizesPassTheRing(t *testing.T) {
	for name, memory := range ringMemories {
		for _, size := range []int{MinRecordSize, 100, 1000, ringCommitStep, 8000, ringMaxRecord - 1, ringMaxRecord} {
			t.Run(name, func(t *testing.T) {
				produce, consume := memory(t)
				source, checker := sourceOfTurns(size), newRecordChecker(size)
				produced := make(chan error, 1)
				go func() { produced <- produceIntoRing(t.Context(), produce, source) }()
				var timer spanTimer
				require.NoError(t, consumeFromRing(t.Context(), consume, checker, &timer))
				require.NoError(t, <-produced)
				require.Equal(t, source.made(), checker.count())
				require.Greater(t, source.made()*int64(size), int64(2*ringSegments*ringSegmentSize),
					"it should go round")
			})
		}
	}
}

func TestRingConsumerNoticesAFlippedByte(t *testing.T) {
	produce, consume := mappedRing(t)
	source := sourceOfTurns(100)
	source.flip = faultAfter
	ctx, cancel := context.WithCancel(t.Context())
	produced := make(chan error, 1)
	go func() { produced <- produceIntoRing(ctx, produce, source) }()
	var timer spanTimer
	err := consumeFromRing(ctx, consume, newRecordChecker(100), &timer)
	cancel()
	<-produced
	require.ErrorIs(t, err, ErrContent)
	require.ErrorContains(t, err, "record 1000, number 1000 of producer 0: byte 99 of 100")
}

func TestSpinningSidesEndWithTheirContext(t *testing.T) {
	mem, _ := heapRing(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		var timer spanTimer
		ended <- consumeFromRing(ctx, make([]byte, ringSize), newRecordChecker(100), &timer)
	}()
	go func() {
		source := newRecordSource(100, 0)
		source.runFor(time.Hour)
		ended <- produceIntoRing(ctx, mem, source)
	}()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestRingConsumerRefusesMarkersThatCannotBe(t *testing.T) {
	mem, _ := heapRing(t)
	ringMarker(mem, 1).store(1<<32 | ringSegmentSize + 1)
	var timer spanTimer
	require.ErrorIs(t, consumeFromRing(t.Context(), mem, newRecordChecker(100), &timer), ErrContent)
}
