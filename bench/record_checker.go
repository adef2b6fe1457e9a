package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"shuffled/writer"
)

// ErrContent is returned when a record that arrived is not the one that was due,
// or when some did not arrive at all.
var ErrContent = errors.New("wrong content")

// A recordChecker compares every record that a consumer gets, in full, with the
// one that is due: the next of its producer, or, where records are keyed, the
// next of its producer and key, provided that the key is this consumer's, or,
// where they are dealt out in turn, the producer's next for this consumer. One
// goroutine uses it.
type recordChecker struct {
	size int
	body []byte

	plain int    // size of a record if this is the only consumer of one producer, else -1
	next  uint64 // stamp that is due then

	due    []uint64 // by producer and key where records are keyed
	dealt  []uint64 // by producer where they are dealt out; noStamp before the first
	firsts []int64  // number of the first record by producer there, -1 for none
	turn   uint64   // how many consumers take turns
	right  int64    // records that were, unless plain

	share *keyShare // where records are keyed for many consumers
}

// noStamp is due where no record is: no producer has such an index.
const noStamp = ^uint64(0)

// newRecordChecker checks the only consumer of the only producer.
func newRecordChecker(size int) *recordChecker {
	return &recordChecker{size: size, plain: size, body: pattern(size)}
}

// newDealtChecker checks one of several consumers that get records in turn.
func newDealtChecker(size, producers, consumers int) *recordChecker {
	c := newRecordChecker(size)
	c.plain, c.next, c.turn = -1, noStamp, uint64(consumers)
	for range producers {
		c.dealt, c.firsts = append(c.dealt, noStamp), append(c.firsts, -1)
	}
	return c
}

// newKeyedChecker checks one of several consumers that get records by key.
func newKeyedChecker(size, producers, consumers, consumer int) (*recordChecker, error) {
	c := newRecordChecker(size)
	c.plain, c.next = -1, noStamp
	selector := keySelector()
	if err := selector.Setup(consumers); err != nil {
		return nil, err
	}
	c.due = make([]uint64, producers*recordKeys)
	for i := range c.due {
		c.due[i] = noStamp
	}
	record := make([]byte, stampSize)
	for producer := range producers {
		for count := range uint64(recordKeys) {
			stamp := uint64(producer)<<countBits | count
			binary.LittleEndian.PutUint64(record, stamp)
			if selector.Select(record) == consumer {
				c.due[c.slot(stamp)] = stamp
			}
		}
	}
	return c, nil
}

// keySelector sends records to consumers by their key.
func keySelector() writer.ChannelSelector[[]byte] {
	return writer.KeyGroups(func(record []byte) uint32 {
		return writer.HashInt32(int32(keyOfStamp(binary.LittleEndian.Uint64(record))))
	}, 0)
}

func (c *recordChecker) slot(stamp uint64) int {
	return int(stamp>>countBits)*recordKeys + int(keyOfStamp(stamp))
}

// check returns ErrContent, with what differs, unless rec is the record that is
// due.
func (c *recordChecker) check(rec []byte) error {
	if len(rec) == c.plain && binary.LittleEndian.Uint64(rec) == c.next && bytes.Equal(rec[stampSize:], c.body) {
		c.next++
		return nil
	}
	return c.checkKeyed(rec)
}

func (c *recordChecker) checkKeyed(rec []byte) error {
	if len(rec) != c.size {
		return fmt.Errorf("record %d has %d bytes, want %d: %w", c.count(), len(rec), c.size, ErrContent)
	}
	stamp, want := binary.LittleEndian.Uint64(rec), c.next
	if c.share != nil {
		return c.checkShare(rec, stamp)
	}
	if slot := c.slot(stamp); c.due != nil && slot < len(c.due) {
		want = c.due[slot]
		if stamp == want && bytes.Equal(rec[stampSize:], c.body) {
			c.due[slot] += recordKeys
			c.right++
			return nil
		}
	}
	if c.dealt != nil {
		return c.checkDealt(rec, stamp)
	}
	return c.difference(rec, stamp, want)
}

// checkDealt checks a record of the right size. Producers begin at a random
// consumer, so that a consumer's first record is one of the first turn.
func (c *recordChecker) checkDealt(rec []byte, stamp uint64) error {
	producer, number := stamp>>countBits, stamp&countMask
	want := uint64(noStamp)
	if producer < uint64(len(c.dealt)) {
		want = c.dealt[producer]
		if want == noStamp && number < c.turn {
			want = stamp
		}
	}
	if stamp != want || !bytes.Equal(rec[stampSize:], c.body) {
		return c.difference(rec, stamp, want)
	}
	if c.firsts[producer] < 0 {
		c.firsts[producer] = int64(number)
	}
	c.dealt[producer] = stamp + c.turn
	c.right++
	return nil
}

// checkDeal returns ErrContent unless every producer dealt all its records out in
// one order. It gets the first numbers, by consumer and producer.
func checkDeal(firsts [][]int64) error {
	consumers := len(firsts)
	for producer := range firsts[0] {
		begun := -1 // the consumer that the producer's first record must have gone to
		for consumer := range consumers {
			first := firsts[consumer][producer]
			if first < 0 {
				continue
			}
			at := (consumer - int(first) + consumers) % consumers
			if begun >= 0 && at != begun {
				return fmt.Errorf("record %d of producer %d went to consumer %d, want it at consumer %d in turn: %w",
					first, producer, consumer, (begun+int(first))%consumers, ErrContent)
			}
			begun = at
		}
	}
	return nil
}

func (c *recordChecker) difference(rec []byte, stamp, want uint64) error {
	if stamp != want || want == noStamp {
		due := "want none with this producer and key here"
		if c.dealt != nil {
			due = fmt.Sprintf("want one of the first %d of a producer below %d", c.turn, len(c.dealt))
		}
		if want != noStamp {
			due = fmt.Sprintf("want number %d of producer %d", want&countMask, want>>countBits)
		}
		return fmt.Errorf("record %d is number %d of producer %d, %s: %w",
			c.count(), stamp&countMask, stamp>>countBits, due, ErrContent)
	}
	at := 0
	for rec[stampSize+at] == c.body[at] {
		at++
	}
	return fmt.Errorf("record %d, number %d of producer %d: byte %d of %d is %#02x, want %#02x: %w",
		c.count(), stamp&countMask, stamp>>countBits, stampSize+at, c.size, rec[stampSize+at], c.body[at], ErrContent)
}

// count counts the records that were right.
func (c *recordChecker) count() int64 {
	if c.plain < 0 {
		return c.right
	}
	return int64(c.next)
}
