package bench

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryOneOfManyConsumersHasKeys(t *testing.T) {
	for _, consumers := range []int{1, 2, 8, 64, 512, 1000, MaxFanout} {
		s, err := newKeySpread(consumers)
		require.NoError(t, err)
		require.Len(t, s.numbers, consumers)
		for i := range consumers {
			require.NotEmpty(t, s.numbers[i], "consumer %d of %d", i, consumers)
		}
	}
}

// spreadExchange returns the checkers of many consumers, and what each should get
// of some records.
func spreadExchange(t *testing.T, producers, consumers int) (checkers []*recordChecker, records [][][]byte) {
	t.Helper()
	s, err := newKeySpread(consumers)
	require.NoError(t, err)
	selector := s.keys.selector()
	require.NoError(t, selector.Setup(consumers))
	const size = 24
	for i := range consumers {
		checkers = append(checkers, s.checker(pattern(size), producers, i))
	}
	records = make([][][]byte, consumers)
	for producer := range producers {
		for _, record := range sourceRecords(size, producer, 2*int(s.keys)) {
			to := selector.Select(record)
			records[to] = append(records[to], record)
		}
	}
	return checkers, records
}

func TestCheckersOfManyConsumersTakeEveryRecordOnce(t *testing.T) {
	checkers, records := spreadExchange(t, 2, 1000)
	for i, checker := range checkers {
		for _, record := range records[i] {
			require.NoError(t, checker.check(record))
		}
		require.EqualValues(t, len(records[i]), checker.count())
		require.ErrorIs(t, checker.check(records[i][0]), ErrContent, "the first again")
	}
}

func TestCheckersOfManyConsumersNoticeLostMisroutedAndForeignRecords(t *testing.T) {
	checkers, records := spreadExchange(t, 2, 100)
	mine := records[7]
	spoilt := slices.Clone(mine[0])
	spoilt[len(spoilt)-1]++
	for _, row := range []struct {
		name, want string
		record     []byte
	}{
		{"misrouted to the next", "want number", records[8][0]},
		{"misrouted from the one before", "want number", records[6][0]},
		{"lost before", "want number", mine[len(mine)-1]},
		{"unknown producer", "want none with this producer and key here", sourceRecords(24, 2, 1)[0]},
		{"all ones", "want none with this producer and key here", slices.Repeat([]byte{0xff}, 24)},
		{"flipped byte", "byte 23 of 24 is", spoilt},
		{"short record", "has 23 bytes, want 24", mine[0][:23]},
	} {
		err := checkers[7].check(row.record)
		require.ErrorIs(t, err, ErrContent, row.name)
		require.ErrorContains(t, err, row.want, row.name)
	}
	require.Zero(t, checkers[7].count())
	require.NoError(t, checkers[7].check(mine[0]))
}
