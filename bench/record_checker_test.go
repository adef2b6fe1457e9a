package bench

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// sourceRecords returns copies of the first n records of a producer.
func sourceRecords(size, producer, n int) (records [][]byte) {
	source := newRecordSource(size, producer)
	for len(records) < n {
		source.fill()
		for i := range source.count {
			records = append(records, slices.Clone(source.record(i)))
		}
	}
	return records[:n]
}

func TestSourceNumbersItsRecordsOverBlocks(t *testing.T) {
	for _, size := range []int{MinRecordSize, 100, 20_000} {
		source := newRecordSource(size, 3)
		for block := range 3 {
			source.fill()
			for i := range source.count {
				frame := source.framed(i)
				require.Len(t, frame, framePrefix+size)
				require.EqualValues(t, size, binary.BigEndian.Uint32(frame))
				stamp := binary.LittleEndian.Uint64(frame[framePrefix:])
				require.EqualValues(t, 3, stamp>>countBits)
				require.EqualValues(t, block*source.count+i, stamp&countMask)
				require.Equal(t, pattern(size), frame[framePrefix+stampSize:])
			}
		}
		require.EqualValues(t, 3*source.count, source.made())
	}
}

func TestSpoiltRecordIsTheOnlyOne(t *testing.T) {
	source, checker := newRecordSource(100, 0), newRecordChecker(100)
	source.flip = faultAfter
	wrong := 0
	for source.made() < 3*faultAfter {
		first := source.made()
		source.fill()
		for i := range source.count {
			if checker.check(source.record(i)) != nil {
				require.EqualValues(t, faultAfter, first+int64(i))
				wrong++
				checker.next++
			}
		}
	}
	require.Equal(t, 1, wrong)
}

func TestCheckerNoticesEveryFlippedByte(t *testing.T) {
	const size = 40
	records := sourceRecords(size, 0, 3)
	for at := range size {
		checker := newRecordChecker(size)
		require.NoError(t, checker.check(records[0]))
		require.NoError(t, checker.check(records[1]))
		spoilt := slices.Clone(records[2])
		spoilt[at] ^= 0x20
		require.ErrorIs(t, checker.check(spoilt), ErrContent, "byte %d", at)
		require.EqualValues(t, 2, checker.count())
	}
}

func TestCheckerSaysWhatIsWrongAndWhere(t *testing.T) {
	records := sourceRecords(20, 0, 5)
	spoilt := slices.Clone(records[1])
	spoilt[19] = ^spoilt[19]
	for _, row := range []struct {
		name   string
		record []byte
		want   string
	}{
		{"lost record", records[2], "record 1 is number 2 of producer 0, want number 1 of producer 0"},
		{"repeated record", records[0], "record 1 is number 0 of producer 0, want number 1 of producer 0"},
		{"flipped byte", spoilt, "record 1, number 1 of producer 0: byte 19 of 20 is"},
		{"short record", records[1][:19], "record 1 has 19 bytes, want 20"},
		{"empty record", nil, "record 1 has 0 bytes, want 20"},
		{"long record", append(slices.Clone(records[1]), 0), "record 1 has 21 bytes, want 20"},
	} {
		t.Run(row.name, func(t *testing.T) {
			checker := newRecordChecker(20)
			require.NoError(t, checker.check(records[0]))
			err := checker.check(row.record)
			require.ErrorIs(t, err, ErrContent)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestKeyedCheckersTakeEveryRecordOnce(t *testing.T) {
	const size, producers, consumers = 24, 3, 4
	selector := keySelector()
	require.NoError(t, selector.Setup(consumers))
	var checkers []*recordChecker
	for i := range consumers {
		checker, err := newKeyedChecker(size, producers, consumers, i)
		require.NoError(t, err)
		checkers = append(checkers, checker)
	}
	total := int64(0)
	for producer := range producers {
		for _, record := range sourceRecords(size, producer, 3*recordKeys) {
			require.NoError(t, checkers[selector.Select(record)].check(record))
			total++
		}
	}
	for i, checker := range checkers {
		require.Positive(t, checker.count(), "consumer %d", i)
		total -= checker.count()
	}
	require.Zero(t, total)
}

func TestKeyedCheckerNoticesLostMisroutedAndForeignRecords(t *testing.T) {
	const size, producers, consumers = 24, 2, 2
	selector := keySelector()
	require.NoError(t, selector.Setup(consumers))
	var mine, others [][]byte
	for _, record := range sourceRecords(size, 0, 2*recordKeys) {
		if selector.Select(record) == 0 {
			mine = append(mine, record)
		} else {
			others = append(others, record)
		}
	}
	spoilt := slices.Clone(mine[0])
	spoilt[size-1]++
	for _, row := range []struct {
		name   string
		record []byte
	}{
		{"misrouted", others[0]},
		{"lost before", mine[len(mine)-1]},
		{"unknown producer", sourceRecords(size, producers, 1)[0]},
		{"all ones", slices.Repeat([]byte{0xff}, size)},
		{"all ones with the right body", append(slices.Repeat([]byte{0xff}, stampSize), pattern(size)...)},
		{"flipped byte", spoilt},
	} {
		checker, err := newKeyedChecker(size, producers, consumers, 0)
		require.NoError(t, err)
		require.ErrorIs(t, checker.check(row.record), ErrContent, row.name)
		require.NoError(t, checker.check(mine[0]), row.name)
		require.ErrorIs(t, checker.check(mine[0]), ErrContent, "the same again after %s", row.name)
	}
}
