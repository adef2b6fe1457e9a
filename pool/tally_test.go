package pool

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTallyKnowsItsNumbersUpToAnyBound(t *testing.T) {
	random := newRandom(t)
	var s tally
	var numbers []int
	for range 3000 {
		if len(numbers) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(numbers))
			s.remove(numbers[i])
			numbers = slices.Delete(numbers, i, i+1)
		} else {
			n := random.IntN(1 << random.IntN(tallyBits+1))
			numbers = append(numbers, n)
			s.add(n)
		}
		bound, want := random.IntN(1<<random.IntN(tallyBits+1)), 0
		for _, n := range numbers {
			want += min(n, bound)
		}
		require.EqualValues(t, want, s.upTo(bound), "up to %d of %v", bound, numbers)
	}
	for _, n := range numbers {
		s.remove(n)
	}
	require.Equal(t, tally{}, s, "nothing is left")
}

func TestWaterLevelIsTheHighestThatCanBeFilled(t *testing.T) {
	for _, row := range []struct {
		name                string
		bases, tops         []int
		amount, level, left int
	}{
		{"equal parts", []int{0, 0, 0}, []int{9, 9, 9}, 12, 4, 0},
		{"some is left", []int{0, 0, 0}, []int{9, 9, 9}, 14, 4, 2},
		{"one is full before", []int{0, 0, 0}, []int{1, 9, 9}, 12, 5, 1},
		{"one stands higher", []int{6, 0, 0}, []int{9, 9, 9}, 8, 4, 0},
		{"all are full", []int{1, 0}, []int{3, 4}, 10, math.MaxUint32, 4},
		{"nothing", []int{2, 3}, []int{4, 4}, 0, 2, 0},
		{"nobody", nil, nil, 5, math.MaxUint32, 5},
		{"large ones", []int{0, math.MaxInt32}, []int{math.MaxInt32, 2 * math.MaxInt32}, math.MaxInt32, math.MaxInt32,
			0},
	} {
		t.Run(row.name, func(t *testing.T) {
			var bases, tops tally
			for i := range row.bases {
				bases.add(row.bases[i])
				tops.add(row.tops[i])
			}
			level, left := waterLevel(&bases, &tops, row.amount)
			require.Equal(t, []int{row.level, row.left}, []int{level, left})
		})
	}
}
