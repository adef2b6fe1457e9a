package bench

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"shuffled/writer"
)

// A keySpread says which of many consumers each key belongs to. Keys are as many
// for few consumers as for a thousand, so that what records cost does not change
// with them. It is read only, and shared by the checkers of a process.
type keySpread struct {
	keys spreadKeys
	// numbers are, by consumer, those of the records it gets of the first block of
	// a producer; of each later block it gets the same.
	numbers [][]uint32
}

// spreadKeys is a number of keys, a power of two.
type spreadKeys uint32

// leastSpreadKeys is more than leastKeysPerConsumer for a thousand consumers.
const (
	leastSpreadKeys      = 1 << 14
	leastKeysPerConsumer = 16
)

func spreadKeysFor(consumers int) spreadKeys {
	return spreadKeys(max(leastSpreadKeys, 1<<bits.Len(uint(leastKeysPerConsumer*consumers-1))))
}

// of scatters consecutive records over the keys: each block of so many records
// has every key once.
func (k spreadKeys) of(stamp uint64) uint32 { return uint32(stamp*0x9e3779b1) & (uint32(k) - 1) }

func (k spreadKeys) selector() writer.ChannelSelector[[]byte] {
	return writer.KeyGroups(func(record []byte) uint32 {
		return writer.HashInt32(int32(k.of(binary.LittleEndian.Uint64(record))))
	}, 0)
}

// newKeySpread returns how the selector spreads keys over so many consumers.
func newKeySpread(consumers int) (*keySpread, error) {
	s := &keySpread{keys: spreadKeysFor(consumers), numbers: make([][]uint32, consumers)}
	selector := s.keys.selector()
	if err := selector.Setup(consumers); err != nil {
		return nil, err
	}
	record := make([]byte, stampSize)
	for number := range uint64(s.keys) {
		binary.LittleEndian.PutUint64(record, number)
		to := selector.Select(record)
		s.numbers[to] = append(s.numbers[to], uint32(number))
	}
	return s, nil
}

// A keyShare is what one consumer gets of each producer, in its order.
type keyShare struct {
	block   uint64   // how many records have each key once
	numbers []uint32 // of the first block
	due     []shareDue
}

// A shareDue is the record that is due of a producer.
type shareDue struct {
	stamp, block uint64
	at           int // in numbers
}

// checker returns the checker of one consumer of several producers. body is the
// pattern of all records.
func (s *keySpread) checker(body []byte, producers, consumer int) *recordChecker {
	share := &keyShare{block: uint64(s.keys), numbers: s.numbers[consumer]}
	for producer := range uint64(producers) {
		due := shareDue{stamp: noStamp, block: producer << countBits, at: -1}
		if len(share.numbers) > 0 {
			share.next(&due)
		}
		share.due = append(share.due, due)
	}
	return &recordChecker{size: stampSize + len(body), body: body, plain: -1, next: noStamp, share: share}
}

func (s *keyShare) next(due *shareDue) {
	due.at++
	if due.at == len(s.numbers) {
		due.at = 0
		due.block += s.block
	}
	due.stamp = due.block + uint64(s.numbers[due.at])
}

// checkShare checks a record of the right size.
func (c *recordChecker) checkShare(rec []byte, stamp uint64) error {
	producer := stamp >> countBits
	if producer >= uint64(len(c.share.due)) {
		return c.difference(rec, stamp, noStamp)
	}
	due := &c.share.due[producer]
	if stamp != due.stamp || !bytes.Equal(rec[stampSize:], c.body) {
		return c.difference(rec, stamp, due.stamp)
	}
	c.share.next(due)
	c.right++
	return nil
}
