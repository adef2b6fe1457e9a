package registry

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func TestPartitionsAreInTheOrderOfTheirKeys(t *testing.T) {
	var o partitionOrder
	var want []*HostedPartition
	for serial := range uint64(20_000) {
		if remove := serial%3 == 2 || serial > 15_000; remove && len(want) > 0 {
			i := rand.IntN(len(want))
			o.remove(want[i])
			o.remove(want[i]) // which is not there
			want = slices.Delete(want, i, i+1)
			continue
		}
		p := &HostedPartition{serial: serial, producer: shuffle.Principal{UID: rand.Uint32N(2)}}
		p.spec.ID[0], p.spec.ID[15] = byte(rand.IntN(4)), byte(rand.IntN(256))
		i, _ := slices.BinarySearchFunc(want, p.place(),
			func(p *HostedPartition, at place) int { return p.place().compare(at) })
		want = slices.Insert(want, i, p)
		o.add(p)
	}
	require.Equal(t, len(want), o.n)
	for _, step := range []int{1, 7, blockSize, 1 << 20} {
		var got []*HostedPartition
		after, more := place{}, true
		for more {
			after, more = o.some(after, step, func(p *HostedPartition) bool {
				got = append(got, p)
				return true
			})
		}
		require.True(t, slices.Equal(want, got), "%d at a time", step)
	}
	for _, block := range o.blocks {
		require.NotEmpty(t, block)
		require.LessOrEqual(t, len(block), blockSize)
	}
}

func TestOthersHaveTheirTurnWhileManyPartitionsAreListed(t *testing.T) {
	r := NewResultPartitionManager(ManagerConfig{})
	var stay []shuffle.PartitionID
	for range 2*walkStep + 100 {
		id := shuffle.NewPartitionID()
		_, err := r.Register(Registration{Spec: shuffle.PartitionSpec{ID: id, Subpartitions: 1}, Producer: creator,
			Host: quietHost{}})
		require.NoError(t, err)
		stay = append(stay, id)
	}
	looked := 0
	_, more := r.step(place{}, func(*HostedPartition) bool { looked++; return true })
	require.True(t, more)
	require.Equal(t, walkStep, looked, "under one hold of the lock")

	slices.SortFunc(stay, func(a, b shuffle.PartitionID) int { return slices.Compare(a[:], b[:]) })
	stop, comeAndGo := make(chan struct{}), sync.WaitGroup{}
	comeAndGo.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			p, err := r.Register(Registration{Spec: shuffle.PartitionSpec{ID: shuffle.NewPartitionID(),
				Subpartitions: 1}, Producer: shuffle.Principal{UID: creator.UID + 1}, Host: quietHost{}})
			if err == nil {
				p.Released("gone")
				p.ProducerClosed("gone")
			}
		}
	})
	for range 20 {
		var got []shuffle.PartitionID
		for _, row := range r.Rows() {
			if row.Producer.UID == creator.UID {
				got = append(got, row.ID)
			}
		}
		require.Equal(t, stay, got)
		got = nil
		after := PartitionKey{}
		for more := true; more; {
			var rows []HostedInfo
			rows, more = r.Page(after, 150, shuffle.Principal{UID: creator.UID})
			for _, row := range rows {
				got = append(got, row.ID)
			}
			after = PartitionKey{ID: got[len(got)-1], Owner: creator.UID}
		}
		require.Equal(t, stay, got)
	}
	close(stop)
	comeAndGo.Wait()
}

type quietHost struct{}

func (quietHost) Attach(*SubpartitionRequest)        {}
func (quietHost) ConsumerDetached(int, bool, string) {}
func (quietHost) Ended(error)                        {}
func (quietHost) Drop(bool)                          {}
