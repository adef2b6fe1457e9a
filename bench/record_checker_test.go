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

// deal returns copies of the first n records of a producer, by the consumer that
// gets them.
func deal(t *testing.T, size, producer, consumers, n int) [][][]byte {
	t.Helper()
	selector := RoundRobin.selector()
	require.NoError(t, selector.Setup(consumers))
	hands := make([][][]byte, consumers)
	for _, record := range sourceRecords(size, producer, n) {
		to := selector.Select(record)
		hands[to] = append(hands[to], record)
	}
	return hands
}

func TestDealtCheckersTakeEveryRecordOnce(t *testing.T) {
	const size, producers, consumers, records = 24, 3, 4, 101
	var checkers []*recordChecker
	for range consumers {
		checkers = append(checkers, newDealtChecker(size, producers, consumers))
	}
	for producer := range producers {
		for consumer, hand := range deal(t, size, producer, consumers, records) {
			for _, record := range hand {
				require.NoError(t, checkers[consumer].check(record))
			}
		}
	}
	total := int64(0)
	var firsts [][]int64
	for _, checker := range checkers {
		total += checker.count()
		firsts = append(firsts, checker.firsts)
	}
	require.EqualValues(t, producers*records, total)
	require.NoError(t, checkDeal(firsts))
}

func TestDealtCheckerNoticesLostMisroutedAndForeignRecords(t *testing.T) {
	const size, producers, consumers = 24, 2, 3
	records := sourceRecords(size, 1, 10)
	spoilt := slices.Clone(records[4])
	spoilt[size-1]++
	for _, row := range []struct {
		name   string
		record []byte
		want   string
	}{
		{"another consumer's", records[5], "record 1 is number 5 of producer 1, want number 4 of producer 1"},
		{"lost before", records[7], "want number 4 of producer 1"},
		{"repeated", records[1], "is number 1 of producer 1, want number 4 of producer 1"},
		{"beyond the first turn", sourceRecords(size, 0, 4)[3], "want one of the first 3 of a producer below 2"},
		{"unknown producer", sourceRecords(size, producers, 1)[0], "want one of the first 3 of a producer below 2"},
		{"all ones", slices.Repeat([]byte{0xff}, size), "want one of the first 3 of a producer below 2"},
		{"flipped byte", spoilt, "number 4 of producer 1: byte 23 of 24"},
		{"short", records[4][:size-1], "has 23 bytes, want 24"},
	} {
		checker := newDealtChecker(size, producers, consumers)
		require.NoError(t, checker.check(records[1]), row.name)
		err := checker.check(row.record)
		require.ErrorIs(t, err, ErrContent, row.name)
		require.ErrorContains(t, err, row.want, row.name)
		require.NoError(t, checker.check(records[4]), row.name)
		require.EqualValues(t, 2, checker.count(), row.name)
		require.Equal(t, []int64{-1, 1}, checker.firsts, row.name)
	}
}

func TestDealMustBeOneOrderForAllConsumers(t *testing.T) {
	require.NoError(t, checkDeal([][]int64{{1, 0}, {2, 1}, {0, 2}}))
	require.NoError(t, checkDeal([][]int64{{-1}, {0}, {-1}}), "fewer records than consumers")
	require.NoError(t, checkDeal([][]int64{nil, nil}), "they are keyed")
	err := checkDeal([][]int64{{0, 0}, {1, 0}})
	require.ErrorIs(t, err, ErrContent)
	require.ErrorContains(t, err, "record 0 of producer 1 went to consumer 1, want it at consumer 0 in turn")
}
