package registry

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestFailureTextsOfEndedPartitionsTakeABoundedShareOfTheHeap(t *testing.T) {
	m := NewResultPartitionManager(ManagerConfig{})
	before := heapInUse()
	for i := range 41_000 {
		cause := strings.Repeat("x", 4096-8) + fmt.Sprintf("%8d", i)
		p, err := m.Register(Registration{
			Spec: shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Name: strings.Repeat("n", shuffle.MaxNameLength),
				Subpartitions: 1}, Producer: creator, Host: silentHost{},
		})
		require.NoError(t, err)
		require.NoError(t, p.Failed(cause))
		p.ProducerClosed("closed")
	}
	grown := heapInUse() - before
	require.Less(t, grown, int64(8<<20), "41,000 causes of 4 KiB")
	require.Len(t, m.tombstones.byKey, 1<<15)
	runtime.KeepAlive(m)
}

type silentHost struct{}

func (silentHost) Attach(*SubpartitionRequest)        {}
func (silentHost) ConsumerDetached(int, bool, string) {}
func (silentHost) Ended(error)                        {}
func (silentHost) Drop(bool)                          {}

// checkTombstones holds the sums against what is there.
func checkTombstones(t *testing.T, s *tombstones) {
	t.Helper()
	count, text := 0, 0
	for owner, yard := range s.users {
		n, bytes, legible := 0, 0, false
		var older *tombstone
		for stone := yard.oldest; stone != nil; stone = stone.newer {
			require.Same(t, stone, s.byKey[PartitionKey{ID: stone.key.ID, Owner: owner}])
			require.Same(t, older, stone.older)
			legible = legible || stone == yard.legible
			require.True(t, legible || stone.epitaph == nil)
			n++
			bytes += stone.epitaph.bytes()
			older = stone
		}
		require.Same(t, yard.newest, older)
		require.Equal(t, yard.count, n)
		require.Equal(t, yard.text, bytes)
		require.LessOrEqual(t, bytes, s.bytesEach)
		require.LessOrEqual(t, n, s.mostEach)
		count += n
		text += bytes
	}
	require.Len(t, s.byKey, count)
	require.Equal(t, s.text, text)
	require.LessOrEqual(t, count, s.most)
	require.LessOrEqual(t, text, s.bytes)
}

func TestNobodyMakesTheDaemonForgetThePartitionsOfAnother(t *testing.T) {
	s := newTombstones(100, 40, 4000)
	bury := func(owner uint32, name string, attempt uint32) PartitionKey {
		key := PartitionKey{ID: shuffle.NamedPartitionID(name), Owner: owner}
		s.add(&tombstone{key: key, attempt: attempt, state: shuffle.PartitionFailed,
			epitaph: &epitaph{cause: "why " + name}})
		return key
	}
	var mine []PartitionKey
	for i := range 10 {
		mine = append(mine, bury(1, fmt.Sprint(i), 0))
	}
	for i := range 500 {
		for flooder := range uint32(3) {
			bury(2+flooder, fmt.Sprint(i%200), uint32(i))
		}
		if i%50 == 0 {
			checkTombstones(t, &s)
		}
	}
	for i, key := range mine {
		stone := s.find(key)
		require.NotNil(t, stone)
		require.ErrorIs(t, stone.err(), shuffle.ErrPartitionFailed)
		require.ErrorContains(t, stone.err(), fmt.Sprint("why ", i))
	}
	require.Len(t, s.byKey, 100)
	require.NotNil(t, s.find(PartitionKey{ID: shuffle.NamedPartitionID("99"), Owner: 2}), "one's own oldest goes")
	require.Nil(t, s.find(PartitionKey{ID: shuffle.NamedPartitionID("199"), Owner: 2}))
	oldest := s.users[2].oldest
	require.ErrorIs(t, oldest.err(), shuffle.ErrPartitionFailed)
	require.ErrorContains(t, oldest.err(), "the daemon has forgotten why")
	require.True(t, oldest.allows(shuffle.Principal{UID: 2}, ""))
	require.False(t, oldest.allows(shuffle.Principal{UID: 3}, ""))
}
