//go:build !race

// The race detector has nothing to see in the model, and would make it slow.

package memseg

import "math"

// The model of the wake-up protocol: a writer, its output flusher, a consumer and
// the control connection, each a program that makes one access to shared state a
// step. Accesses are sequentially consistent, as Go's atomics are. What the
// programs decide, they decide with the functions that the queues use
// (wakeup.go), and their steps stand in the order of QueueWriter, QueueReader,
// Doorbell and of the loops around them in packages shuffle and reader.

// An op is something that the writer does.
type op uint8

const (
	opRecord   op = iota // write a record into the open buffer, or into a new one
	opCommit             // publish what is written
	opFinish             // end the open buffer
	opFlush              // publish, and ask for it to be read at once
	opEvent              // queue an event
	opBarrier            // queue an event that blocks the consumer
	opPriority           // queue a priority event; the first ends the blocking
	opEnd                // queue end-of-partition
)

// A mistake in the protocol, which the checker must find.
type mistake string

const (
	correct                       mistake = ""
	countsARecordBeforeWritingIt  mistake = "the writer counts a record before it is written"
	finishesAfterMoving           mistake = "the position moves before the marker says finished"
	readsWantBeforeMoving         mistake = "the writer reads want before it stores the position"
	readsWantBeforeFlushing       mistake = "a flush reads want before it stores flushed"
	flushesSilently               mistake = "a flush does not ring"
	eventsAreNotFlushed           mistake = "an event rings only if it passes want"
	priorityRingsOnlyTheArmed     mistake = "a priority event rings only if want is not passed"
	setsTheBitLast                mistake = "the bit of the channel is set after the count"
	readsParkedFirst              mistake = "parked is read before the bit and the count"
	armsWithoutLookingAgain       mistake = "the consumer arms and does not look again"
	looksAgainBeforeArming        mistake = "the consumer looks again before it stores want"
	sleepsWithoutComparing        mistake = "the sleeper does not compare the count"
	storesParkedAfterComparing    mistake = "parked is stored after the count was compared"
	loadsTheCountWhenItSleeps     mistake = "the sleeper loads the count after its last look"
	readsNoticesBeforeTheCount    mistake = "notices are read before the count is loaded"
	wakesBeforeTheNotice          mistake = "the consumer is woken before the notice is there"
	blocksWithoutFlushing         mistake = "the writer blocks without flushing"
	armsReleaseAfterLooking       mistake = "the writer looks at released before it stores its wish"
	armsForWhatTheUserKeeps       mistake = "the writer waits for half, of which the consumer's user keeps too much"
	armsBeyondItsReach            mistake = "the writer that keeps its distance waits for more than can be released"
	parksAfterTakingElements      mistake = "the writer parks although it took elements after it armed"
	readsWantReleasedBeforeMoving mistake = "the consumer reads the writer's wish before it stores released"
	flushesWithoutTheLock         mistake = "the flusher publishes without the lock"
)

// A scenario is what the writer and the flusher do, and in what world.
type scenario struct {
	name       string
	ops        []op
	ticks      int8 // of the output flusher
	segments   int8 // of the pool
	keeps      int8 // elements that the consumer's user may keep, and does
	thresholds []cursor
	distance   bool // a blocked writer takes nothing before it is as much as it armed for
	crashes    bool // also explore the death of either process at every step
	first      uint64
	mistake    mistake
}

const (
	modelSegments = 3 // at most
	recordBytes   = 2
)

// A cursor of the stream, counted from the first ordinal.
type cursor int8

// A world is the state of everything. It has neither pointers nor padding, since
// it is the key of a map.
type world struct {
	// writer: producer.
	marker                                 [modelSegments]int8 // as a PositionMarker, MinInt8 is finished-empty
	content                                [modelSegments]int8 // bytes that are stored in the segment
	holder                                 [modelSegments]cursor
	published, position, flushed, priority cursor
	wantReleased                           cursor
	producerParked                         bool
	// writer: consumer.
	want, released cursor
	consumerParked bool
	// Doorbells: whether the count differs from what its owner loaded last, and the
	// bits. writer: all.
	consumerRung, producerRung, bit, producerBit bool
	// What the control connection says: the peer is lost.
	consumerNotice, producerNotice bool

	writer   writerState
	flusher  flusherState
	consumer consumerState
	control  controlState
}

// at says where a program stands; each program has its own steps from 1 on.
type at uint8

const (
	start  at = 0
	asleep at = 250
	ended  at = 251
)

// A ringing is where a program stands that rings a doorbell, 0 if it does not.
type ringing struct {
	stage     uint8
	sawParked bool
}

type writerState struct {
	at, then  at // then: where to go on after a flush or a wait
	ring      ringing
	op        uint8
	written   int8 // bytes in the open buffer; the flusher loads it
	committed int8
	open      bool
	accepted  cursor // released, as last accepted
	took      bool   // elements, since it armed
	woken     bool   // in this wait
	mustRing  bool
	oldWant   cursor // of those mistakes that read it early
	lock      int8   // of the subpartition
}

const (
	free            = 0
	heldByWriter    = 1
	heldByFlusher   = 2
	producerDied    = 1
	consumerDied    = 2
	readToTheEnd    = 1
	readAllAndFails = 2
)

type flusherState struct {
	at      at
	ring    ringing
	ticks   int8
	written int8
}

type consumerState struct {
	at           at
	ring         ringing
	changed      bool // the count, at the last look
	ready        bool
	failed       bool // the notice was read
	blocked      bool
	seen         cursor // published, as last loaded
	next         cursor // element to read next
	nextPriority cursor
	inElement    int8 // bytes read of it
	read         cursor
	got          bool // bytes, by the last look into the element
	looked       bool // of the mistake that looks before it arms
	oldWanted    cursor
	leave        cursor // finished data that it does not read
	outcome      int8
}

// controlState is the death of a process and the way of the news of it.
type controlState struct {
	died int8
	at   at
}

// A model is a scenario with what follows from it.
type model struct {
	scenario
	kind    []op   // of each element, by ordinal
	segment []int8 // of each element that is a buffer
	buffers []int8 // buffers among the elements before this one
}

func newModel(s scenario) *model {
	m := &model{scenario: s}
	open, buffers := false, int8(0)
	add := func(kind op) {
		m.kind = append(m.kind, kind)
		m.segment = append(m.segment, buffers%s.segments) // first in, first out
		m.buffers = append(m.buffers, buffers)
	}
	for _, o := range s.ops {
		switch o {
		case opRecord:
			if !open {
				add(opRecord)
				open = true
				buffers++
			}
		case opFinish:
			open = false
		case opEvent, opBarrier, opEnd:
			add(o)
		}
	}
	m.buffers = append(m.buffers, buffers)
	return m
}

func (m *model) initial() world {
	w := world{want: -1, wantReleased: -1, consumer: consumerState{ready: true}}
	if w.flusher.ticks = m.ticks; m.ticks == 0 {
		w.flusher.at = ended
	}
	return w
}

func (m *model) value(c cursor) uint64 { return m.first + uint64(int64(c)) }

func (m *model) crosses(mark, old, new cursor) bool {
	return crosses(m.value(mark), m.value(old), m.value(new))
}

func (m *model) isBeyond(position, mark cursor) bool {
	return isBeyond(m.value(position), m.value(mark))
}

func marker(bytes int8, finished bool) int8 {
	switch {
	case !finished:
		return bytes
	case bytes == 0:
		return math.MinInt8
	}
	return -bytes
}

func markerBytes(v int8) (bytes int8, finished bool) {
	switch {
	case v == math.MinInt8:
		return 0, true
	case v < 0:
		return -v, true
	}
	return v, false
}

// The accesses of a ring, in order.
const (
	setBit = iota
	count
	lookAtParked
	wake
)

// stepRing makes the next access of Doorbell.Ring. owner is where the owner of
// the doorbell stands, woken where it goes on.
func (m *model) stepRing(r *ringing, bit, rung *bool, parked bool, owner *at, woken at) {
	order := [...]int{setBit, count, lookAtParked, wake}
	switch m.mistake {
	case setsTheBitLast:
		order = [...]int{count, setBit, lookAtParked, wake}
	case readsParkedFirst:
		order = [...]int{lookAtParked, setBit, count, wake}
	}
	access := order[r.stage-1]
	r.stage++
	switch access {
	case setBit:
		*bit = true
	case count:
		*rung = true
	case lookAtParked:
		r.sawParked = parked
	case wake:
		if *owner == asleep {
			*owner = woken
		}
		*r = ringing{}
	}
	if next := r.stage; next > 0 && order[next-1] == wake && !r.sawParked {
		*r = ringing{} // no call is needed
	}
}

func (m *model) ringConsumer(w *world, r *ringing) {
	m.stepRing(r, &w.bit, &w.consumerRung, w.consumerParked, &w.consumer.at, consumerWoken)
}

func (m *model) ringProducer(w *world, r *ringing) {
	m.stepRing(r, &w.producerBit, &w.producerRung, w.producerParked, &w.writer.at, writerWoken)
}
