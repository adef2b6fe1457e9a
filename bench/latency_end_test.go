package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrameCutterDeliversTheSameRecordsFromChunksOfAnySize(t *testing.T) {
	const size, count = 20, 7
	source := newRecordSource(size, 0)
	var stream []byte
	for range count {
		stream = append(stream, source.one()...)
	}
	for chunk := 1; chunk <= len(stream); chunk++ {
		cutter, checker := frameCutter{size: size}, newRecordChecker(size)
		for rest := stream; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
			require.NoError(t, cutter.cut(rest[:min(chunk, len(rest))], checker.check), "chunks of %d", chunk)
		}
		require.NoError(t, cutter.end())
		require.EqualValues(t, count, checker.count(), "chunks of %d", chunk)
	}
}

func TestFrameCutterRefusesWhatIsNoRecord(t *testing.T) {
	deliver := func([]byte) error { return nil }
	frame := newRecordSource(20, 0).one()
	cutter := frameCutter{size: 20}
	require.NoError(t, cutter.cut(frame, deliver))
	require.NoError(t, cutter.cut(frame[:10], deliver))
	require.ErrorIs(t, cutter.end(), io.ErrUnexpectedEOF)

	binary.BigEndian.PutUint32(frame, 1<<31)
	cutter = frameCutter{size: 20}
	err := cutter.cut(frame, deliver)
	require.ErrorIs(t, err, ErrContent)
	require.ErrorContains(t, err, "record 0 has 2147483648 bytes, want 20")

	told := errors.New("told to")
	require.ErrorIs(t, (&frameCutter{size: 20}).cut(newRecordSource(20, 0).one(), func([]byte) error { return told }),
		told)
}

func TestSourceGivesOneRecordAtATimeAcrossBlocks(t *testing.T) {
	for _, size := range []int{MinRecordSize, 100, blockSize} {
		source, checker := newRecordSource(size, 0), newRecordChecker(size)
		for i := range 3*source.count + 1 {
			frame := source.one()
			require.EqualValues(t, size, binary.BigEndian.Uint32(frame))
			require.NoError(t, checker.check(frame[framePrefix:]), fmt.Sprint(i))
		}
	}
}
