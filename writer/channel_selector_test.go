package writer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
	"shuffled/writer"
)

func TestForwardAndBroadcastAlwaysChooseTheSame(t *testing.T) {
	forward := writer.Forward[string]()
	require.NoError(t, forward.Setup(1))
	require.ErrorIs(t, forward.Setup(2), shuffle.ErrInvalidArgument)
	for _, n := range []int{1, 2, 100} {
		broadcast := writer.Broadcast[string]()
		require.NoError(t, broadcast.Setup(n))
		for _, rec := range []string{"a", "b", ""} {
			require.Zero(t, forward.Select(rec))
			require.Equal(t, writer.AllChannels, broadcast.Select(rec))
		}
	}
}

func TestRebalanceDealsOutInTurn(t *testing.T) {
	starts := make(map[int]int)
	for range 300 {
		s := writer.Rebalance[string]()
		require.NoError(t, s.Setup(3))
		first := s.Select("")
		starts[first]++
		for i := 1; i < 7; i++ {
			require.Equal(t, (first+i)%3, s.Select(""))
		}
	}
	require.Len(t, starts, 3, "writers do not all begin at the same consumer")
}

func TestRebalanceOverOneSubpartition(t *testing.T) {
	s := writer.Rebalance[string]()
	require.NoError(t, s.Setup(1))
	for range 3 {
		require.Zero(t, s.Select(""))
	}
}

func TestCustomSelectorChooses(t *testing.T) {
	s := writer.Custom(func(rec string, n int) int { return len(rec) * n })
	require.NoError(t, s.Setup(4))
	require.Equal(t, 12, s.Select("abc"), "what it says is checked by the writer")
	require.ErrorIs(t, writer.Custom[string](nil).Setup(1), shuffle.ErrInvalidArgument)
}

func TestKeyGroupsSelector(t *testing.T) {
	for _, row := range []struct {
		subpartitions int
		want          map[string]int
	}{
		{2, map[string]int{"": 1, "a": 1, "b": 0, "abc": 1, "hello": 0, "key-1": 0}},
		{4, map[string]int{"": 2, "a": 2, "b": 0, "abc": 3, "hello": 1, "key-1": 1}},
		{10, map[string]int{"": 7, "a": 6, "b": 1, "abc": 8, "hello": 2, "key-1": 4}},
	} {
		for _, groups := range []int{128, 0} { // 128 is the default of so few
			s := writer.KeyGroups(writer.HashString, groups)
			require.NoError(t, s.Setup(row.subpartitions))
			for range 2 {
				for key, want := range row.want {
					require.Equal(t, want, s.Select(key), "key %q of %d", key, row.subpartitions)
				}
			}
		}
	}
}

func TestKeyGroupsSelectorIsChecked(t *testing.T) {
	for _, row := range []struct {
		hash                  func(string) uint32
		groups, subpartitions int
		valid                 bool
	}{
		{nil, 128, 1, false},
		{writer.HashString, -1, 1, false},
		{writer.HashString, 1, 1, true},
		{writer.HashString, 1, 2, false},
		{writer.HashString, 128, 128, true},
		{writer.HashString, 128, 129, false},
		{writer.HashString, writer.MaxKeyGroups, writer.MaxKeyGroups, true},
		{writer.HashString, writer.MaxKeyGroups + 1, 1, false},
		{writer.HashString, 0, writer.MaxKeyGroups, true},
	} {
		err := writer.KeyGroups(row.hash, row.groups).Setup(row.subpartitions)
		if row.valid {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
		}
	}
}
