package writer_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/writer"
)

func TestKeysAreHashedAsInJava(t *testing.T) {
	for _, row := range []struct {
		name string
		hash uint32
		want int32
	}{
		{"int 0", writer.HashInt32(0), 0},
		{"int -1", writer.HashInt32(-1), -1},
		{"the largest int", writer.HashInt32(math.MaxInt32), math.MaxInt32},
		{"long 1", writer.HashInt64(1), 1},
		{"long -1", writer.HashInt64(-1), 0},
		{"long 2^32", writer.HashInt64(1 << 32), 1},
		{"the smallest long", writer.HashInt64(math.MinInt64), math.MinInt32},
		{"true", writer.HashBool(true), 1231},
		{"false", writer.HashBool(false), 1237},
		{"no text", writer.HashString(""), 0},
		{"a", writer.HashString("a"), 97},
		{"b", writer.HashString("b"), 98},
		{"abc", writer.HashString("abc"), 96354},
		{"hello", writer.HashString("hello"), 99162322},
		{"key-1", writer.HashString("key-1"), 101943363},
		{"text that overflows", writer.HashString("the quick brown fox"), 1302335171},
	} {
		require.Equal(t, row.want, int32(row.hash), row.name)
	}
	require.Equal(t, writer.HashString("hello"), writer.HashBytes([]byte("hello")))
}

func TestKeyGroupVectors(t *testing.T) {
	type subpartitions struct{ of2, of3, of4, of10 int }
	for _, row := range []struct {
		key      string
		hash     uint32
		murmur   int
		group128 int
		of128    subpartitions
		group4k  int
		of4k     int // of 7
	}{
		{"int 0", writer.HashInt32(0), 593689054, 94, subpartitions{1, 2, 2, 7}, 2526, 4},
		{"int 1", writer.HashInt32(1), 68075478, 86, subpartitions{1, 2, 2, 6}, 4054, 6},
		{"int 2", writer.HashInt32(2), 1085422463, 127, subpartitions{1, 2, 3, 9}, 2943, 5},
		{"int 42", writer.HashInt32(42), 1134849565, 29, subpartitions{0, 0, 0, 2}, 3613, 6},
		{"int 127", writer.HashInt32(127), 1931274395, 27, subpartitions{0, 0, 0, 2}, 2203, 3},
		{"int -1", writer.HashInt32(-1), 1982413648, 80, subpartitions{1, 1, 2, 6}, 2896, 4},
		{"int 2147483647", writer.HashInt32(2147483647), 1653689534, 62, subpartitions{0, 1, 1, 4}, 3262, 5},
		{"long 1", writer.HashInt64(1), 68075478, 86, subpartitions{1, 2, 2, 6}, 4054, 6},
		{"long -1", writer.HashInt64(-1), 593689054, 94, subpartitions{1, 2, 2, 7}, 2526, 4},
		{"long 4294967296", writer.HashInt64(4294967296), 68075478, 86, subpartitions{1, 2, 2, 6}, 4054, 6},
		{"bool true", writer.HashBool(true), 1090530765, 77, subpartitions{1, 1, 2, 6}, 3533, 6},
		{`string ""`, writer.HashString(""), 593689054, 94, subpartitions{1, 2, 2, 7}, 2526, 4},
		{`string "a"`, writer.HashString("a"), 1455541201, 81, subpartitions{1, 1, 2, 6}, 3025, 5},
		{`string "b"`, writer.HashString("b"), 516420758, 22, subpartitions{0, 0, 0, 1}, 1174, 2},
		{`string "abc"`, writer.HashString("abc"), 74834163, 115, subpartitions{1, 2, 3, 8}, 243, 0},
		{`string "hello"`, writer.HashString("hello"), 1715862179, 35, subpartitions{0, 0, 1, 2}, 2723, 4},
		{`string "key-1"`, writer.HashString("key-1"), 23124534, 54, subpartitions{0, 1, 1, 4}, 2614, 4},
		{"the only hash whose murmur is the smallest integer", hash(-2089875627), 0, 0, subpartitions{0, 0, 0, 0}, 0,
			0},
		{"the only hash whose murmur is zero", hash(-1035494534), 0, 0, subpartitions{0, 0, 0, 0}, 0, 0},
	} {
		require.Equal(t, row.murmur, writer.KeyGroup(row.hash, math.MaxInt32), row.key)
		require.Equal(t, row.group128, writer.KeyGroup(row.hash, 128), row.key)
		require.Equal(t, row.group4k, writer.KeyGroup(row.hash, 4096), row.key)
		require.Equal(t, row.of128, subpartitions{
			writer.OperatorIndex(128, 2, row.group128), writer.OperatorIndex(128, 3, row.group128),
			writer.OperatorIndex(128, 4, row.group128), writer.OperatorIndex(128, 10, row.group128),
		}, row.key)
		require.Equal(t, row.of4k, writer.OperatorIndex(4096, 7, row.group4k), row.key)
	}
}

func hash(v int32) uint32 { return uint32(v) }

func TestKeyGroupRanges(t *testing.T) {
	for _, row := range []struct {
		maxParallelism, subpartitions int
		ranges                        [][2]int
	}{
		{128, 1, [][2]int{{0, 127}}},
		{128, 2, [][2]int{{0, 63}, {64, 127}}},
		{128, 3, [][2]int{{0, 42}, {43, 85}, {86, 127}}},
		{128, 4, [][2]int{{0, 31}, {32, 63}, {64, 95}, {96, 127}}},
		{128, 10, [][2]int{
			{0, 12}, {13, 25}, {26, 38}, {39, 51}, {52, 63}, {64, 76}, {77, 89}, {90, 102}, {103, 115}, {116, 127},
		}},
		{4096, 7, [][2]int{
			{0, 585}, {586, 1170}, {1171, 1755}, {1756, 2340}, {2341, 2925}, {2926, 3510}, {3511, 4095},
		}},
		{3, 3, [][2]int{{0, 0}, {1, 1}, {2, 2}}},
	} {
		for i, want := range row.ranges {
			first, last := writer.KeyGroupRange(row.maxParallelism, row.subpartitions, i)
			require.Equal(t, want, [2]int{first, last}, "subpartition %d of %d with %d groups", i, row.subpartitions,
				row.maxParallelism)
		}
	}
}

func TestEveryKeyGroupBelongsToTheSubpartitionOfItsRange(t *testing.T) {
	for _, groups := range []int{1, 2, 127, 128, 1000, 4096, writer.MaxKeyGroups} {
		for _, n := range []int{1, 2, 3, 7, 85, 100, 127, 128, 1000, writer.MaxKeyGroups} {
			if n > groups {
				continue
			}
			next := 0
			for i := range n {
				first, last := writer.KeyGroupRange(groups, n, i)
				require.Equal(t, next, first, "ranges follow each other")
				for g := first; g <= last; g++ {
					if index := writer.OperatorIndex(groups, n, g); index != i {
						require.Equal(t, i, index, "group %d of %d, %d subpartitions", g, groups, n)
					}
				}
				next = last + 1
			}
			require.Equal(t, groups, next, "no group is left out")
		}
	}
}

func TestDefaultMaxParallelism(t *testing.T) {
	for n, want := range map[int]int{
		1: 128, 2: 128, 85: 128, 86: 256, 100: 256, 128: 256, 200: 512, 1000: 2048, 4096: 8192,
		10000: 16384, 10923: 16384, 10924: 32768, 32768: 32768,
	} {
		require.Equal(t, want, writer.DefaultMaxParallelism(n), "%d subpartitions", n)
	}
}
