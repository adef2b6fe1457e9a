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
// next of its producer and key, provided that the key is this consumer's. One
// goroutine uses it.
type recordChecker struct {
	size int
	body []byte

	plain int    // size of a record where records are not keyed, else -1
	next  uint64 // stamp that is due where records are not keyed

	due   []uint64 // by producer and key where records are keyed
	keyed int64    // records that were right
}

// noStamp is due where no record is: no producer has such an index.
const noStamp = ^uint64(0)

// newRecordChecker checks the only consumer of the only producer.
func newRecordChecker(size int) *recordChecker {
	return &recordChecker{size: size, plain: size, body: pattern(size)}
}

// newKeyedChecker checks one of several consumers.
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
	if slot := c.slot(stamp); c.due != nil && slot < len(c.due) {
		want = c.due[slot]
		if stamp == want && bytes.Equal(rec[stampSize:], c.body) {
			c.due[slot] += recordKeys
			c.keyed++
			return nil
		}
	}
	return c.difference(rec, stamp, want)
}

func (c *recordChecker) difference(rec []byte, stamp, want uint64) error {
	if stamp != want || want == noStamp {
		due := "want none with this producer and key here"
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
	if c.due != nil {
		return c.keyed
	}
	return int64(c.next)
}
