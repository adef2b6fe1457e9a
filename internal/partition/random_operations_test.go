package partition_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// TestRandomOperationsMatchAModel does what users may do, in random order, and
// compares every result with a model that keeps all elements in slices: contents,
// order, types, who is rung, what is refused, and
// which segments are in use.
func TestRandomOperationsMatchAModel(t *testing.T) {
	random := newRandom(t)
	for range 150 {
		newRandomRun(t, random, linktest.Heap).run(250)
	}
	for range 20 {
		newRandomRun(t, random, linktest.Mapped).run(250)
	}
}

// A randomRun is a partition beside its model. Operations that wait would end in
// an error, as their context has ended.
type randomRun struct {
	*rand.Rand
	t       *testing.T
	link    *linktest.Link
	p       *partition.ResultPartition
	segment int // bytes
	size    int // of the pool

	streams   []*modelStream
	consumers []*linktest.Consumer
	held      []heldBuffer
	armed     []armedConsumer
	segments  []*modelSegment
	shared    bool // the last record was broadcast
	bytes     int64
	buffers   int64
	fill      byte
	log       []string // the last operations
}

func (r *randomRun) logf(format string, args ...any) {
	if len(r.log) == 20 {
		r.log = r.log[1:]
	}
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

type heldBuffer struct {
	*memseg.Buffer
	sub     int
	element *modelElement
	content []byte
}

// An armedConsumer is to be rung once the stream is beyond want or flushed
// beyond what was read.
type armedConsumer struct {
	armed       bool
	want, rings int
}

func newRandomRun(t *testing.T, random *rand.Rand, memory linktest.Memory) *randomRun {
	r := &randomRun{Rand: random, t: t, segment: 8 + random.IntN(60)}
	subpartitions := 1 + random.IntN(3)
	r.size = subpartitions + 1 + random.IntN(9)
	r.link = linktest.New(t, linktest.Config{
		Memory: memory, Subpartitions: subpartitions, Segments: r.size, SegmentSize: r.segment,
		OnLost: shuffle.DiscardOnConsumerLost,
	})
	r.p = r.link.Partition
	for sub := range subpartitions {
		r.streams = append(r.streams, &modelStream{})
		r.consumers = append(r.consumers, r.link.Consumer(sub))
	}
	r.armed = make([]armedConsumer, subpartitions)
	return r
}

func (r *randomRun) run(operations int) {
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%d subpartitions, %d segments of %d bytes: ...\n%s",
				len(r.streams), r.link.Layout.Segments, r.segment, strings.Join(r.log, "\n"))
		}
	}()
	for range operations {
		r.p.Reclaim()
		sub := r.IntN(len(r.streams))
		switch n := r.IntN(100); {
		case n < 22:
			r.emit(sub, r.IntN(2*r.segment+1))
		case n < 32:
			r.broadcast(r.IntN(2*r.segment + 1))
		case n < 42:
			r.reserve(sub, r.IntN(r.segment-3), r.IntN(4) > 0)
		case n < 46:
			r.event([]memseg.DataType{event, event, alignedEvent}[r.IntN(3)])
		case n < 49:
			r.event(priorityEvent)
		case n < 54:
			require.NoError(r.t, r.p.Flush(sub))
			r.streams[sub].flush()
		case n < 57:
			require.NoError(r.t, r.p.FlushAll())
			r.flushAll()
		case n < 82:
			r.poll(sub, r.IntN(3) == 0)
		case n < 92:
			r.release()
		case n < 95:
			r.resume(sub)
		case n < 98:
			r.arm(sub, r.IntN(4*r.segment))
		case n < 99:
			r.resize()
		default:
			if r.IntN(8) == 0 {
				r.detach(sub)
			}
		}
		r.check()
	}
	r.end()
}

// end finishes the stream and reads all of it.
func (r *randomRun) end() {
	require.NoError(r.t, r.p.Finish(impatient()))
	r.finishOpen()
	for _, s := range r.streams {
		s.addEvent(memseg.EndOfPartition, make([]byte, 4))
	}
	r.check()
	for sub, s := range r.streams {
		for !s.discarded && !s.ended() {
			if s.blocked {
				r.resume(sub)
			}
			r.poll(sub, false)
			for len(r.held) > 0 {
				r.release()
			}
		}
	}
	r.check()
	require.Zero(r.t, r.link.Pool.Used())
	require.NoError(r.t, r.p.Close())
	for _, c := range r.consumers {
		c.Close(false)
	}
}

func (r *randomRun) check() {
	r.t.Helper()
	r.p.Reclaim()
	require.Equal(r.t, r.inUse(), r.link.Pool.Used(), "segments in use")
	require.Equal(r.t, [2]int64{r.bytes, r.buffers}, [2]int64{r.p.BytesOut(), r.p.BuffersOut()}, "counters")
	for sub, s := range r.streams {
		require.Equal(r.t, len(s.elements)-s.released, r.p.Subpartition(sub).QueuedBuffers(), "elements of %d", sub)
		if s.discarded {
			continue
		}
		require.Equal(r.t, s.isAvailable(), r.consumers[sub].IsAvailableBeyond(0), "availability of %d", sub)
		if a := r.armed[sub]; a.armed {
			due := s.finishedTo > a.want || !s.blocked && s.flushedTo > s.readTo || s.prioritiesRead < len(s.priorities)
			if due {
				require.Greater(r.t, r.consumers[sub].Rings(), a.rings, "consumer %d sleeps", sub)
			}
		}
	}
	for _, b := range r.held {
		require.Equal(r.t, b.content, b.Bytes(), "a buffer that is held")
	}
}

func (r *randomRun) inUse() int {
	n := 0
	for _, segment := range r.segments {
		if segment.holders > 0 {
			n++
		}
	}
	return n
}

// free is how many segments can be had without waiting.
func (r *randomRun) free() int { return r.size - r.inUse() }

func (r *randomRun) record(n int) []byte {
	record := make([]byte, n)
	for i := range record {
		r.fill++
		record[i] = r.fill
	}
	return record
}

// switchMode finishes the open buffers of the other mode.
func (r *randomRun) switchMode(shared bool) {
	if r.shared != shared {
		r.shared = shared
		r.finishOpen()
	}
}

func (r *randomRun) finishOpen() {
	for _, s := range r.streams {
		r.finish(s)
	}
}

func (r *randomRun) finish(s *modelStream) {
	if open := s.open(); open != nil {
		r.bytes += int64(len(open.content))
		r.buffers++
		s.finish()
	}
}

func (r *randomRun) flushAll() {
	for _, s := range r.streams {
		s.flush()
	}
}

// waits reports whether a record must wait for a segment, and whether part of it
// is written by then. What is discarded is free as soon as it is finished.
func (r *randomRun) waits(n int, shared bool, streams []*modelStream) (waits, cut bool) {
	free, space, rest := r.free(), 0, n
	discarded := !slices.ContainsFunc(streams, func(s *modelStream) bool { return !s.discarded })
	if r.shared != shared {
		free += r.freedByFinishing()
	} else if open := streams[0].open(); open != nil {
		space = r.segment - len(open.content)
		if r.startsNewBuffer(n, space) {
			space = 0
			if discarded {
				free++
			}
		}
	}
	for {
		if space == 0 {
			if free <= 0 {
				return true, rest < n
			}
			free--
			space = r.segment
		}
		written := min(rest, space)
		rest, space = rest-written, space-written
		if space == 0 && discarded {
			free++
		}
		if rest == 0 {
			return false, false
		}
	}
}

// startsNewBuffer reports whether a record of n bytes is not cut over the open
// buffer, which has so little space that it is better left unused.
func (r *randomRun) startsNewBuffer(n, space int) bool {
	return n > space && n <= r.segment && space <= r.segment/16
}

// freedByFinishing is how many segments finishing the open buffers sets free.
func (r *randomRun) freedByFinishing() int {
	freed, open := 0, make(map[*modelSegment]int)
	for _, s := range r.streams {
		if e := s.open(); e != nil && s.discarded {
			if open[e.segment]++; open[e.segment] == e.segment.holders {
				freed++
			}
		}
	}
	return freed
}

// append writes a record to the streams, which share their segments, and makes
// it visible if it was committed.
func (r *randomRun) append(record []byte, committed bool, streams ...*modelStream) {
	for rest := record; ; {
		if streams[0].open() == nil {
			segment := &modelSegment{holders: len(streams)}
			r.segments = append(r.segments, segment)
			for _, s := range streams {
				s.elements = append(s.elements, &modelElement{typ: memseg.DataBuffer, segment: segment})
			}
		}
		n := min(len(rest), r.segment-len(streams[0].open().content))
		for _, s := range streams {
			open := s.open()
			open.content = append(open.content, rest[:n]...)
			if committed {
				open.visible = len(open.content)
			}
			if len(open.content) == r.segment {
				r.finish(s)
			}
		}
		rest = rest[n:]
		if len(rest) == 0 {
			return
		}
	}
}

func (r *randomRun) emit(sub, n int) {
	s := r.streams[sub]
	cut := r.IntN(n + 1)
	r.write(n, false, func(record []byte) error {
		return r.p.EmitRecordParts(impatient(), record[:cut], record[cut:], sub)
	}, s)
}

func (r *randomRun) broadcast(n int) {
	cut := r.IntN(n + 1)
	r.write(n, true, func(record []byte) error {
		return r.p.BroadcastRecordParts(impatient(), record[:cut], record[cut:])
	}, r.streams...)
}

func (r *randomRun) write(n int, shared bool, call func([]byte) error, streams ...*modelStream) {
	waits, cut := r.waits(n, shared, streams)
	if cut {
		return // that would end the partition
	}
	record := r.record(n)
	r.logf("write %d bytes to %d streams, %d free segments", n, len(streams), r.free())
	err := call(record)
	r.switchMode(shared)
	if open := streams[0].open(); open != nil && r.startsNewBuffer(n, r.segment-len(open.content)) {
		for _, s := range streams {
			r.finish(s)
		}
	}
	if waits {
		require.ErrorIs(r.t, err, context.Canceled)
		r.flushAll() // who waits flushes before
		return
	}
	require.NoError(r.t, err)
	r.append(record, true, streams...)
}

func (r *randomRun) reserve(sub, n int, commit bool) {
	s := r.streams[sub]
	fits := !r.shared && s.open() != nil && len(s.open().content)+4+n <= r.segment
	record := framed(n, byte(n))
	r.logf("reserve %d bytes of %d, commit %t, %d free segments", n, sub, commit, r.free())
	dst, err := r.p.Reserve(impatient(), sub, n)
	r.switchMode(false)
	if !fits {
		r.finish(s)
		if r.inUse() >= r.size {
			require.ErrorIs(r.t, err, context.Canceled)
			r.flushAll()
			return
		}
		// The new buffer is there, whatever becomes of the record.
		r.append(nil, false, s)
	}
	require.NoError(r.t, err)
	copy(dst, record[4:])
	if !commit {
		r.p.Abort()
		return
	}
	require.NoError(r.t, r.p.Commit())
	r.append(record, false, s)
}

func (r *randomRun) event(typ memseg.DataType) {
	room := func(s *modelStream) bool {
		if typ.HasPriority() {
			return s.discarded || len(s.priorities) < prioritySlots
		}
		return s.discarded || s.unreleasedEvents() < eventSlots
	}
	r.logf("%s", typ)
	if !room(r.streams[0]) {
		require.ErrorIs(r.t, r.p.BroadcastEvent(impatient(), newBarrier(typ)), context.Canceled)
		r.finishOpen()
		r.flushAll()
		return
	}
	if slices.ContainsFunc(r.streams, func(s *modelStream) bool { return !room(s) }) {
		return // some would get it and others not, which ends the partition
	}
	e := newBarrier(typ)
	r.fill++
	e.Body = []byte{r.fill}
	content, err := shuffle.EncodeEvent(e)
	require.NoError(r.t, err)
	require.NoError(r.t, r.p.BroadcastEvent(impatient(), e))
	r.finishOpen()
	for _, s := range r.streams {
		switch {
		case !typ.HasPriority():
			s.addEvent(typ, content)
		case !s.discarded:
			s.priorities = append(s.priorities, &modelElement{typ: typ, content: content})
		}
	}
}

func (r *randomRun) holdLimit() int { return max(1, r.size/(2*len(r.streams))) }

func (r *randomRun) poll(sub int, hold bool) {
	s := r.streams[sub]
	if s.discarded {
		return
	}
	r.armed[sub].armed = false
	r.logf("poll %d, hold %t", sub, hold)
	b := &memseg.Buffer{}
	ok, err := r.consumers[sub].Take(b)
	want := s.poll(r.holdLimit())
	switch {
	case want.tooMany:
		require.ErrorIs(r.t, err, shuffle.ErrTooManyBuffersHeld)
		return
	case want.element == nil:
		require.NoError(r.t, err)
		require.False(r.t, ok)
		return
	}
	require.NoError(r.t, err)
	require.True(r.t, ok, "want %d bytes", len(want.content))
	require.Equal(r.t, want.content, b.Bytes())
	require.Equal(r.t, want.element.typ, b.DataType())
	r.held = append(r.held, heldBuffer{b, sub, want.element, want.content})
	if !hold {
		r.releaseHeld(len(r.held) - 1)
	}
}

func (r *randomRun) release() {
	if len(r.held) > 0 {
		r.releaseHeld(r.IntN(len(r.held)))
	}
}

func (r *randomRun) releaseHeld(i int) {
	b := r.held[i]
	r.logf("release %d bytes of %d", b.Len(), b.sub)
	r.held = slices.Delete(r.held, i, i+1)
	require.NoError(r.t, b.Release())
	require.ErrorIs(r.t, b.Release(), memseg.ErrReleased)
	b.element.held--
	r.streams[b.sub].releaseInOrder()
}

func (r *randomRun) resume(sub int) {
	s := r.streams[sub]
	if s.discarded {
		return
	}
	r.logf("resume %d", sub)
	err := r.consumers[sub].ResumeConsumption()
	if !s.blocked {
		require.ErrorIs(r.t, err, shuffle.ErrProtocol)
		return
	}
	s.blocked = false
	r.armed[sub].armed = false
	require.NoError(r.t, err)
	require.Equal(r.t, s.isAvailable(), r.consumers[sub].IsAvailableBeyond(0))
}

func (r *randomRun) arm(sub, threshold int) {
	s := r.streams[sub]
	if s.discarded {
		return
	}
	r.logf("arm %d at %d", sub, threshold)
	rings := r.consumers[sub].Rings()
	idle := r.consumers[sub].Arm(threshold)
	want := s.readTo + min(threshold, r.size*r.segment/(2*len(r.streams)))
	wantIdle := s.prioritiesRead == len(s.priorities) &&
		(s.blocked || s.ended() || s.flushedTo <= s.readTo && s.finishedTo <= want)
	require.Equal(r.t, wantIdle, idle)
	r.armed[sub] = armedConsumer{armed: idle && !s.blocked && !s.ended(), want: want, rings: rings}
}

func (r *randomRun) resize() {
	required := len(r.streams) + 1
	r.size = required + r.IntN(r.link.Layout.Segments-required+1)
	r.logf("resize to %d", r.size)
	require.NoError(r.t, r.p.PoolResized(r.size, nil))
}

func (r *randomRun) detach(sub int) {
	s := r.streams[sub]
	if s.discarded {
		return
	}
	for i := len(r.held) - 1; i >= 0; i-- {
		if r.held[i].sub == sub {
			r.releaseHeld(i)
		}
	}
	r.logf("detach %d", sub)
	r.consumers[sub].Close(false)
	r.p.DetachConsumer(sub, r.IntN(2) == 0, "detached")
	s.discarded = true
	s.priorities, s.prioritiesRead = nil, 0
	s.discardFinished()
}
