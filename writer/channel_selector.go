package writer

import (
	"fmt"
	"math/rand/v2"

	"shuffled/shuffle"
)

// AllChannels is what a selector returns for a record that goes to every
// subpartition.
const AllChannels = -1

// A ChannelSelector chooses the subpartition of each record. One goroutine uses
// it.
type ChannelSelector[T any] interface {
	// Setup is called once with the number of subpartitions, at least 1.
	Setup(subpartitions int) error
	// Select returns a subpartition, or AllChannels.
	Select(rec T) int
}

type forward[T any] struct{}

// Forward sends every record to the only subpartition. Of a partition with several
// the others would stay empty: that is shuffle.ErrInvalidArgument.
func Forward[T any]() ChannelSelector[T] { return forward[T]{} }

func (forward[T]) Setup(n int) error {
	if n != 1 {
		return fmt.Errorf("forward selector for %d subpartitions, want 1: %w", n, shuffle.ErrInvalidArgument)
	}
	return nil
}

func (forward[T]) Select(T) int { return 0 }

type rebalance[T any] struct{ next, n int }

// Rebalance deals records out in turn, from a random start, so that many writers
// do not all begin at the same consumer.
func Rebalance[T any]() ChannelSelector[T] { return &rebalance[T]{} }

func (r *rebalance[T]) Setup(n int) error {
	if n < 1 {
		return fmt.Errorf("rebalance selector for %d subpartitions, want at least 1: %w", n, shuffle.ErrInvalidArgument)
	}
	r.n, r.next = n, rand.IntN(n)
	return nil
}

func (r *rebalance[T]) Select(T) int {
	r.next++
	if r.next >= r.n {
		r.next = 0
	}
	return r.next
}

type broadcast[T any] struct{}

// Broadcast sends every record to every subpartition.
func Broadcast[T any]() ChannelSelector[T] { return broadcast[T]{} }

func (broadcast[T]) Setup(int) error { return nil }
func (broadcast[T]) Select(T) int    { return AllChannels }

type custom[T any] struct {
	partition func(rec T, subpartitions int) int
	n         int
}

// Custom lets a function choose. A result outside the subpartitions is
// shuffle.ErrInvalidArgument of that Emit, unless it is AllChannels.
func Custom[T any](partition func(rec T, subpartitions int) int) ChannelSelector[T] {
	return &custom[T]{partition: partition}
}

func (c *custom[T]) Setup(n int) error {
	if c.partition == nil {
		return fmt.Errorf("custom selector without a function: %w", shuffle.ErrInvalidArgument)
	}
	c.n = n
	return nil
}

func (c *custom[T]) Select(rec T) int { return c.partition(rec, c.n) }

type keyGroups[T any] struct {
	hash           func(rec T) uint32
	maxParallelism int
	channels       []int32 // of each key group
	mask           uint32  // of a hash, if the number of groups is a power of two, else 0
}

// KeyGroups sends records of one key to one subpartition. hash returns the hash
// of a record's key, see HashBytes and its like; equal keys must have equal
// hashes. Keys fall into maxParallelism key groups, each of which belongs to one
// subpartition, so that a different number of subpartitions moves whole groups.
// 0 chooses DefaultMaxParallelism. More subpartitions than key groups, or more
// than MaxKeyGroups groups, are shuffle.ErrInvalidArgument.
func KeyGroups[T any](hash func(rec T) uint32, maxParallelism int) ChannelSelector[T] {
	return &keyGroups[T]{hash: hash, maxParallelism: maxParallelism}
}

func (k *keyGroups[T]) Setup(n int) error {
	if k.hash == nil {
		return fmt.Errorf("key group selector without a hash function: %w", shuffle.ErrInvalidArgument)
	}
	if k.maxParallelism == 0 {
		k.maxParallelism = DefaultMaxParallelism(n)
	}
	if k.maxParallelism < 1 || k.maxParallelism > MaxKeyGroups || n > k.maxParallelism {
		return fmt.Errorf("%d subpartitions with %d key groups, want at most as many as groups and at most %d groups: %w",
			n, k.maxParallelism, MaxKeyGroups, shuffle.ErrInvalidArgument)
	}
	k.channels = make([]int32, k.maxParallelism)
	for g := range k.channels {
		k.channels[g] = int32(OperatorIndex(k.maxParallelism, n, g))
	}
	if k.maxParallelism&(k.maxParallelism-1) == 0 {
		k.mask = uint32(k.maxParallelism - 1)
	}
	return nil
}

// Select finds the subpartition of KeyGroup's group, by default without its
// division, which would take half of the time.
func (k *keyGroups[T]) Select(rec T) int {
	hash := uint32(murmur(k.hash(rec)))
	if k.mask != 0 {
		return int(k.channels[hash&k.mask])
	}
	return int(k.channels[hash%uint32(len(k.channels))])
}
