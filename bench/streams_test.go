package bench

import (
	"bytes"
	"io"
	"os"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func framesOf(source *recordSource, n int) []byte {
	var out bytes.Buffer
	for range n {
		source.fill()
		out.Write(source.frames)
	}
	return out.Bytes()
}

func TestRecordsPassEveryStream(t *testing.T) {
	for _, transport := range []Transport{Unix, TCP, Pipe} {
		for _, size := range []int{MinRecordSize, 100, 8000, 100_000} {
			t.Run(string(transport), func(t *testing.T) {
				w, r, err := transport.connect()
				require.NoError(t, err)
				defer r.Close()
				source, checker := sourceOfTurns(size), newRecordChecker(size)
				produced := make(chan error, 1)
				go func() {
					defer w.Close()
					produced <- produceIntoStreams([]io.Writer{w}, keySelector(), source)
				}()
				var timer spanTimer
				require.NoError(t, consumeFromStreams([]io.Reader{r}, []*recordChecker{checker}, &timer, nil))
				require.NoError(t, <-produced)
				require.Equal(t, source.made(), checker.count())
			})
		}
	}
}

func TestStreamConsumerNoticesAFlippedByte(t *testing.T) {
	for _, transport := range []Transport{Unix, TCP, Pipe} {
		w, r, err := transport.connect()
		require.NoError(t, err)
		source := sourceOfTurns(100)
		source.flip = faultAfter
		produced := make(chan error, 1)
		go func() {
			defer w.Close()
			produced <- produceIntoStreams([]io.Writer{w}, keySelector(), source)
		}()
		var timer spanTimer
		err = consumeFromStreams([]io.Reader{r}, []*recordChecker{newRecordChecker(100)}, &timer,
			func() { _ = r.Close() })
		require.ErrorIs(t, err, ErrContent)
		require.ErrorContains(t, err, "record 1000, number 1000 of producer 0: byte 99 of 100")
		<-produced
	}
}

func TestKeyedStreamsOfSeveralProducersAndConsumers(t *testing.T) {
	const size, producers, consumers = 100, 3, 2
	var writers [producers][]*os.File
	var readers [consumers][]io.Reader
	for p := range producers {
		for c := range consumers {
			w, r, err := Unix.connect()
			require.NoError(t, err)
			defer r.Close()
			writers[p], readers[c] = append(writers[p], w), append(readers[c], r)
		}
	}
	var sources []*recordSource
	produced := make(chan error, producers)
	for p := range producers {
		source := newRecordSource(size, p)
		source.runFor(0)
		sources = append(sources, source)
		go func() {
			var streams []io.Writer
			for _, w := range writers[p] {
				defer w.Close()
				streams = append(streams, w)
			}
			produced <- produceIntoStreams(streams, keySelector(), source)
		}()
	}
	type outcome struct {
		count int64
		err   error
	}
	consumed := make(chan outcome, consumers)
	for c := range consumers {
		var checkers []*recordChecker
		for range producers {
			checker, err := newKeyedChecker(size, producers, consumers, c)
			require.NoError(t, err)
			checkers = append(checkers, checker)
		}
		go func() {
			var timer spanTimer
			err := consumeFromStreams(readers[c], checkers, &timer, nil)
			o := outcome{err: err}
			for _, checker := range checkers {
				o.count += checker.count()
			}
			consumed <- o
		}()
	}
	sent, received := int64(0), int64(0)
	for range producers {
		require.NoError(t, <-produced)
	}
	for range consumers {
		o := <-consumed
		require.NoError(t, o.err)
		received += o.count
	}
	for _, source := range sources {
		sent += source.made()
	}
	require.Equal(t, sent, received)
	require.Positive(t, sent)
}

func TestStreamThatEndsWithinARecordIsNotTheEnd(t *testing.T) {
	frames := framesOf(newRecordSource(100, 0), 3)
	for _, cut := range []int{1, framePrefix, 50, 103} {
		checker := newRecordChecker(100)
		var timer spanTimer
		err := consumeFromStream(bytes.NewReader(frames[:len(frames)-cut]), checker, &timer)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes are missing", cut)
	}
	var timer spanTimer
	checker := newRecordChecker(100)
	require.NoError(t, consumeFromStream(iotest.OneByteReader(bytes.NewReader(frames)), checker, &timer))
	require.EqualValues(t, len(frames)/104, checker.count())
}

func TestStreamRefusesALengthThatNoRecordHas(t *testing.T) {
	frames := slices.Clone(framesOf(newRecordSource(100, 0), 1))
	copy(frames[104:], []byte{0xff, 0xff, 0xff, 0xff})
	var timer spanTimer
	err := consumeFromStream(bytes.NewReader(frames), newRecordChecker(100), &timer)
	require.ErrorIs(t, err, ErrContent)
	require.ErrorContains(t, err, "record 1 has 4294967295 bytes, want 100")
}
