//go:build !race

package memseg

import "fmt"

// The steps of the consumer.
const (
	consumerReadsNotice at = iota + 1 // InputGate.queueNotified; start loads the count
	consumerCollects

	consumerLooksForPriority // SubpartitionView.IsAvailable
	consumerLooksAtPosition
	consumerLooksAtFlushed

	consumerPollsPriority // SubpartitionView.Poll
	consumerRefreshes
	consumerLooksAtMarker

	consumerReleases // SubpartitionView.Recycle
	consumerLooksAtWish

	consumerArms // SubpartitionView.Arm
	consumerChecksPriority
	consumerChecksFlushed
	consumerChecksPosition

	consumerParks // Doorbell.Park
	consumerLooksAtBits
	consumerWaits
	consumerWoken
	consumerCollectsWoken // InputGate.park
)

// stepConsumer makes the consumer's next access, and reports whether it could.
// threshold is the one that it arms with, if it does. What it finds that cannot
// be is the error.
func (m *model) stepConsumer(w *world, threshold cursor) (bool, error) {
	c := &w.consumer
	if c.ring.stage > 0 {
		m.ringProducer(w, &c.ring)
		return true, nil
	}
	switch c.at {
	case asleep, ended:
		return false, nil

	case start:
		if m.mistake == readsNoticesBeforeTheCount {
			m.readNotice(w)
			c.at = consumerReadsNotice
			return true, nil
		}
		c.changed, w.consumerRung = w.consumerRung, false
		c.at = consumerReadsNotice
	case consumerReadsNotice:
		if m.mistake == readsNoticesBeforeTheCount {
			c.changed, w.consumerRung = w.consumerRung, false
		} else {
			m.readNotice(w)
		}
		if c.at = consumerCollects; !c.changed {
			m.turn(w)
		}
	case consumerCollects:
		c.ready = c.ready || w.bit
		w.bit, c.changed = false, false
		m.turn(w)

	case consumerLooksForPriority:
		switch {
		case w.priority > c.nextPriority || c.failed:
			c.at = consumerPollsPriority
		case c.blocked:
			c.at = consumerArms
		case c.seen > c.next+1:
			c.at = consumerPollsPriority
		default:
			c.at = consumerLooksAtPosition
		}
	case consumerLooksAtPosition:
		if c.at = consumerLooksAtFlushed; m.isBeyond(w.position, c.read+c.leave) {
			c.at = consumerPollsPriority
		}
	case consumerLooksAtFlushed:
		if c.at = consumerArms; m.isBeyond(w.flushed, c.read) {
			c.at = consumerPollsPriority
		}

	case consumerPollsPriority:
		switch {
		case w.priority > c.nextPriority:
			c.nextPriority++
			c.blocked = false
			m.deliver(w)
		case c.blocked:
			m.foundNothing(w)
		case c.seen > c.next+1 && c.inElement > 0:
			c.at = consumerLooksAtMarker
		default:
			c.at = consumerRefreshes
		}
	case consumerRefreshes:
		if w.published < c.seen {
			return false, fmt.Errorf("published went back from %d to %d", c.seen, w.published)
		}
		c.seen = w.published
		switch {
		case c.seen == c.next:
			m.foundNothing(w)
		case m.kind[c.next] == opRecord:
			c.at = consumerLooksAtMarker
		default:
			c.blocked = m.kind[c.next] == opBarrier && c.nextPriority == 0
			c.got = true
			m.finishElement(w)
		}
	case consumerLooksAtMarker:
		segment := m.segment[c.next]
		bytes, finished := markerBytes(w.marker[segment])
		switch {
		case w.holder[segment] != c.next:
			return false, fmt.Errorf("element %d is read in segment %d, where element %d is written", c.next, segment,
				w.holder[segment])
		case bytes > w.content[segment] || bytes%recordBytes != 0:
			return false, fmt.Errorf("the marker says %d bytes, %d are stored, in records of %d", bytes,
				w.content[segment], recordBytes)
		case bytes < c.inElement:
			return false, fmt.Errorf("the marker went back from %d to %d bytes", c.inElement, bytes)
		case !finished && c.seen > c.next+1:
			return false, fmt.Errorf("element %d is open and not the last", c.next)
		}
		c.got = bytes > c.inElement
		c.read += cursor(bytes - c.inElement)
		c.inElement = bytes
		switch {
		case finished:
			m.finishElement(w)
		case c.got:
			m.deliver(w)
		default:
			m.foundNothing(w)
		}

	case consumerReleases:
		if m.mistake == readsWantReleasedBeforeMoving && c.oldWanted == 0 {
			c.oldWanted = w.wantReleased + 2
			return true, nil
		}
		w.released++
		c.at = consumerLooksAtWish
	case consumerLooksAtWish:
		wanted := w.wantReleased
		if m.mistake == readsWantReleasedBeforeMoving {
			wanted, c.oldWanted = c.oldWanted-2, 0
		}
		if m.crosses(wanted, w.released-1, w.released) {
			c.ring.stage = 1
		}
		m.afterElement(w)

	case consumerArms:
		if m.mistake == looksAgainBeforeArming && !c.looked {
			c.at = consumerChecksPriority
			return m.stepConsumer(w, threshold)
		}
		w.want = c.read + threshold
		c.leave = threshold / 2
		if c.at = consumerChecksPriority; m.mistake == armsWithoutLookingAgain || c.looked {
			m.rest(w)
		}
	case consumerChecksPriority:
		switch {
		case w.priority > c.nextPriority:
			m.readOn(w)
		case c.blocked:
			m.rest(w)
		default:
			c.at = consumerChecksFlushed
		}
	case consumerChecksFlushed:
		if c.at = consumerChecksPosition; m.isBeyond(w.flushed, c.read) {
			m.readOn(w)
		}
	case consumerChecksPosition:
		want := w.want
		if m.mistake == looksAgainBeforeArming {
			want = c.read + threshold
		}
		if m.isBeyond(w.position, want) {
			m.readOn(w)
		} else {
			m.rest(w)
		}

	case consumerParks:
		w.consumerParked = true
		switch {
		case m.mistake == storesParkedAfterComparing || m.mistake == sleepsWithoutComparing:
			c.at = asleep
		default:
			c.at = consumerLooksAtBits
		}
	case consumerLooksAtBits:
		if c.at = consumerWaits; w.bit {
			c.at = consumerWoken
		}
	case consumerWaits:
		switch {
		case w.consumerRung:
			c.at = consumerWoken
		case m.mistake == storesParkedAfterComparing:
			c.at = consumerParks
		default:
			c.at = asleep
		}
	case consumerWoken:
		w.consumerParked = false
		c.at = consumerCollectsWoken
	case consumerCollectsWoken:
		c.ready = c.ready || w.bit
		w.bit = false
		c.at = start
	}
	return true, nil
}

func (m *model) readNotice(w *world) {
	if w.consumerNotice && !w.consumer.failed {
		w.consumer.failed, w.consumer.ready = true, true
	}
}

// turn polls the channel if it is ready, and sleeps otherwise.
func (m *model) turn(w *world) {
	c := &w.consumer
	switch {
	case c.ready:
		c.ready = false
		c.at = consumerLooksForPriority
	case m.mistake == storesParkedAfterComparing:
		c.at = consumerWaits
	case m.mistake == loadsTheCountWhenItSleeps:
		w.consumerRung = false
		c.at = consumerParks
	default:
		c.at = consumerParks
	}
}

// deliver hands something to the user; the channel's next turn comes.
func (m *model) deliver(w *world) { m.readOn(w) }

func (m *model) readOn(w *world) {
	w.consumer.at, w.consumer.ready, w.consumer.looked, w.consumer.got = start, true, false, false
}

// rest leaves the channel until it is rung for.
func (m *model) rest(w *world) {
	c := &w.consumer
	if m.mistake == looksAgainBeforeArming && !c.looked {
		c.looked, c.at = true, consumerArms // now it arms
		return
	}
	c.at, c.looked = start, false
}

// foundNothing ends a channel that has failed, and arms another.
func (m *model) foundNothing(w *world) {
	c := &w.consumer
	c.got = false
	if c.at = consumerArms; c.failed {
		c.at, c.outcome = ended, readAllAndFails
	}
}

// finishElement moves past the element; the user has released it, or the oldest that
// it keeps, when the consumer looks for the next.
func (m *model) finishElement(w *world) {
	c := &w.consumer
	c.next++
	c.read++
	c.inElement = 0
	if c.at = consumerReleases; c.next-w.released <= cursor(m.keeps) {
		m.afterElement(w)
	}
}

func (m *model) afterElement(w *world) {
	c := &w.consumer
	switch {
	case m.kind[c.next-1] == opEnd:
		c.at, c.outcome = ended, readToTheEnd
	case c.got:
		m.deliver(w)
	default:
		c.at = consumerRefreshes // an empty buffer is passed over
	}
}

// The steps of the control connection, from start on: it leaves the notice,
// counts on the survivor's doorbell and wakes it.
const (
	controlCounts at = iota + 1
	controlWakes
	controlLeavesNotice
)

func (m *model) stepControl(w *world) bool {
	n := &w.control
	notice, rung, owner, woken := &w.consumerNotice, &w.consumerRung, &w.consumer.at, consumerWoken
	if n.died == consumerDied {
		notice, rung, owner, woken = &w.producerNotice, &w.producerRung, &w.writer.at, writerWoken
	}
	if n.died == 0 || n.at == ended {
		return false
	}
	late := m.mistake == wakesBeforeTheNotice
	switch n.at {
	case start:
		if n.at = controlCounts; !late {
			*notice = true
			return true
		}
		return m.stepControl(w)
	case controlCounts:
		*rung = true
		n.at = controlWakes
	case controlWakes:
		if *owner == asleep {
			*owner = woken
		}
		if n.at = ended; late {
			n.at = controlLeavesNotice
		}
	case controlLeavesNotice:
		*notice = true
		n.at = ended
	}
	return true
}
