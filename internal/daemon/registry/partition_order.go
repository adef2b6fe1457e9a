package registry

import (
	"cmp"
	"math"
	"slices"
)

// A partitionOrder holds partitions in the order of their keys, those of one key in
// the order of their registration, so that pages of them can be made without looking
// at all. It is a list of sorted blocks: what comes or goes moves the rest of its block.
type partitionOrder struct {
	blocks [][]*HostedPartition // none is empty
	n      int
}

// blockSize is the largest number of partitions in a block.
const blockSize = 512

// A place in the order lies behind a partition.
type place struct {
	key    PartitionKey
	serial uint64
}

// behind returns the place behind all partitions of a key.
func behind(key PartitionKey) place { return place{key, math.MaxUint64} }

func (p *HostedPartition) place() place { return place{p.key(), p.serial} }

func (a place) compare(b place) int {
	return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.serial, b.serial))
}

// search returns where the first partition from a place on stands; behind all of them
// it is block len(blocks).
func (o *partitionOrder) search(at place) (block, i int, found bool) {
	block, _ = slices.BinarySearchFunc(o.blocks, at, func(b []*HostedPartition, at place) int {
		return b[len(b)-1].place().compare(at)
	})
	if block == len(o.blocks) {
		return block, 0, false
	}
	i, found = slices.BinarySearchFunc(o.blocks[block], at,
		func(p *HostedPartition, at place) int { return p.place().compare(at) })
	return block, i, found
}

func (o *partitionOrder) add(p *HostedPartition) {
	o.n++
	if len(o.blocks) == 0 {
		o.blocks = [][]*HostedPartition{{p}}
		return
	}
	block, i, _ := o.search(p.place())
	if block == len(o.blocks) { // behind the last one
		block--
		i = len(o.blocks[block])
	}
	b := slices.Insert(o.blocks[block], i, p)
	o.blocks[block] = b
	if half := len(b) / 2; len(b) > blockSize {
		o.blocks[block] = slices.Clone(b[:half])
		o.blocks = slices.Insert(o.blocks, block+1, slices.Clone(b[half:]))
	}
}

func (o *partitionOrder) remove(p *HostedPartition) {
	block, i, found := o.search(p.place())
	if !found {
		return
	}
	o.n--
	if o.blocks[block] = slices.Delete(o.blocks[block], i, i+1); len(o.blocks[block]) == 0 {
		o.blocks = slices.Delete(o.blocks, block, block+1)
	}
}

// some calls f for up to n partitions behind a place, in order, until it returns false.
// It returns the place behind the last one, and whether to go on from there.
func (o *partitionOrder) some(after place, n int, f func(p *HostedPartition) bool) (last place, more bool) {
	block, i, found := o.search(after)
	if found {
		i++
	}
	for ; block < len(o.blocks); block, i = block+1, 0 {
		for _, p := range o.blocks[block][i:] {
			if n == 0 {
				return after, true
			}
			n--
			after = p.place()
			if !f(p) {
				return after, false
			}
		}
	}
	return after, false
}
