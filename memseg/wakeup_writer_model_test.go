//go:build !race

package memseg

// The steps of the writer.
const (
	writerOpens at = iota + 1 // ResultPartition.startBuffer
	writerPublishes
	writerStoresFirstByte
	writerStoresSecondByte
	writerCounts

	writerReclaims // ResultPartition.whenRoom
	writerLoadsCount
	writerClearsBits
	writerArms
	writerLooksAgain
	writerReadsNotice
	writerParks
	writerLooksAtBits
	writerWaits
	writerWoken

	writerFinishes // QueueWriter.Advance
	writerMoves
	writerLooksAtWant

	writerFlushes // QueueWriter.Flush
	writerStoresFlushed
	writerFlushLooksAtWant

	writerQueuesEvent // QueueWriter.PublishEvent
	writerQueuesPriority
	writerNotifiesPriority

	writerNext // the op is done
)

// lock takes the subpartition's lock, or reports that it must wait. Taking it is
// one step with the first access under it, and giving it up with the last one:
// nobody outside the process can tell.
func (w *world) lock(who int8) bool {
	if w.writer.lock != free && w.writer.lock != who {
		return false
	}
	w.writer.lock = who
	return true
}

func (m *model) unlock(w *world) { w.writer.lock = free }

// hasSegment reports whether the writer knows of a free segment.
func (m *model) hasSegment(w *world) bool {
	return m.buffers[w.published]-m.buffers[w.writer.accepted] < m.segments
}

func (m *model) accept(w *world) {
	w.writer.took = w.released != w.writer.accepted
	w.writer.accepted = w.released
}

// stepWriter makes the writer's next access, and reports whether it could.
func (m *model) stepWriter(w *world) bool {
	p := &w.writer
	if p.ring.stage > 0 {
		if m.ringConsumer(w, &p.ring); p.ring.stage == 0 {
			m.unlock(w)
		}
	} else if !m.stepOp(w) {
		return false
	}
	if p.at == writerNext && p.ring.stage == 0 {
		p.op, p.at, p.then = p.op+1, start, start
		if int(p.op) == len(m.ops) {
			p.at = ended
		}
	}
	return true
}

func (m *model) stepOp(w *world) bool {
	p := &w.writer
	for { // until there was an access
		switch p.at {
		case asleep, ended:
			return false

		case start:
			p.then = writerNext
			switch m.ops[p.op] {
			case opRecord:
				p.at = writerStoresFirstByte
				if m.mistake == countsARecordBeforeWritingIt {
					p.at = writerCounts
				}
				if !p.open {
					p.then, p.at = p.at, writerOpens
					if !m.hasSegment(w) {
						p.at = writerReclaims
					}
				}
			case opCommit:
				p.at = writerFlushes
			case opFinish:
				p.at = writerFinishes
				if m.mistake == finishesAfterMoving {
					p.at = writerMoves
				}
			case opFlush:
				p.at = writerFlushes
			case opEvent, opBarrier, opEnd:
				p.at = writerQueuesEvent
			case opPriority:
				p.at = writerQueuesPriority
			}

		case writerOpens:
			if !w.lock(heldByWriter) {
				return false
			}
			segment := m.segment[w.published]
			w.marker[segment], w.content[segment], w.holder[segment] = 0, 0, w.published
			p.written, p.committed, p.woken = 0, 0, false
			p.at = writerPublishes
			return true
		case writerPublishes:
			w.published++
			p.open = true
			p.at = p.then
			m.unlock(w)
			return true
		case writerStoresFirstByte, writerStoresSecondByte:
			w.content[m.segment[w.published-1]]++
			p.at++
			if p.at == writerCounts && m.mistake == countsARecordBeforeWritingIt {
				p.at = writerNext
			}
			return true
		case writerCounts:
			p.written += recordBytes
			p.at = writerNext
			if m.mistake == countsARecordBeforeWritingIt {
				p.at = writerStoresFirstByte
			}
			return true

		case writerReclaims:
			if !m.distance {
				m.accept(w)
			}
			p.took = false
			p.at = writerLoadsCount
			if m.hasSegment(w) {
				p.at = writerOpens
			} else if m.mistake != blocksWithoutFlushing {
				p.at = writerFlushes
			}
			return true
		case writerLoadsCount:
			w.producerRung = false
			p.at = writerClearsBits
			return true
		case writerClearsBits:
			w.producerBit = false
			p.at = writerArms
			if m.mistake == armsReleaseAfterLooking {
				p.at = writerLooksAgain
			}
			return true
		case writerArms:
			n := w.published - p.accepted
			k := cursor(ReleasesToWaitFor(int(n), int(m.keeps), int(n)))
			switch {
			case m.mistake == armsBeyondItsReach:
				k = n + 1
			case m.mistake == armsForWhatTheUserKeeps:
				k = max(1, n/2)
			case m.distance:
				k = max(1, n-1)
			}
			w.wantReleased = p.accepted + k - 1
			p.at = writerLooksAgain
			if m.mistake == armsReleaseAfterLooking {
				p.at = writerReadsNotice
			}
			return true
		case writerLooksAgain:
			p.took = false
			if !m.distance || p.woken || m.isBeyond(w.released, w.wantReleased) {
				m.accept(w)
			}
			p.at = writerReadsNotice
			if m.mistake == armsReleaseAfterLooking {
				p.at = writerArms
			}
			return true
		case writerReadsNotice:
			switch {
			case w.producerNotice:
				p.at = ended // ErrConsumerLost
			case m.hasSegment(w):
				p.at = writerOpens
			case p.took && m.mistake != parksAfterTakingElements:
				p.at = writerLoadsCount // what it asked for has been passed
			default:
				p.at = writerParks
			}
			return true
		case writerParks:
			w.producerParked = true
			p.at = writerLooksAtBits
			return true
		case writerLooksAtBits:
			if p.at = writerWaits; w.producerBit {
				p.at = writerWoken
			}
			return true
		case writerWaits:
			if p.at = asleep; w.producerRung {
				p.at = writerWoken
			}
			return true
		case writerWoken:
			w.producerParked = false
			p.woken = true
			p.at = writerLoadsCount
			return true

		case writerFinishes:
			if !w.lock(heldByWriter) {
				return false
			}
			w.marker[m.segment[w.published-1]] = marker(p.written, true)
			p.at = writerMoves
			if m.mistake == finishesAfterMoving {
				p.open, p.written, p.committed = false, 0, 0
				p.at = writerNext
				m.unlock(w)
			}
			return true
		case writerMoves:
			if !w.lock(heldByWriter) {
				return false
			}
			if m.mistake == readsWantBeforeMoving && p.oldWant == 0 {
				p.oldWant = w.want + 2 // not 0
				return true
			}
			w.position += p.moves(m)
			p.at = writerLooksAtWant
			return true
		case writerLooksAtWant:
			want := w.want
			if m.mistake == readsWantBeforeMoving {
				want = p.oldWant - 2
			}
			moved := p.moves(m)
			p.mustRing = m.crosses(want, w.position-moved, w.position)
			switch {
			case m.ops[p.op] != opFinish:
				p.at = writerStoresFlushed
				if m.mistake == eventsAreNotFlushed {
					m.finishOp(w)
				}
			case m.mistake == finishesAfterMoving:
				if p.mustRing {
					p.ring.stage = 1
				}
				p.at = writerFinishes
			default:
				p.open, p.written, p.committed = false, 0, 0
				m.finishOp(w)
			}
			return true

		case writerFlushes:
			if !w.lock(heldByWriter) {
				return false
			}
			p.at = writerStoresFlushed
			if m.ops[p.op] == opCommit {
				p.at = writerNext
			}
			news := p.open && p.written > p.committed
			if news {
				p.committed = p.written
				w.marker[m.segment[w.published-1]] = marker(p.written, false)
			}
			if p.at == writerNext {
				m.unlock(w)
				return true
			}
			if news {
				return true
			}
		case writerStoresFlushed:
			to := w.position + cursor(p.committed)
			if !m.isBeyond(to, w.flushed) {
				m.finishOp(w)
				return true
			}
			if m.mistake == readsWantBeforeFlushing && p.oldWant == 0 {
				p.oldWant = w.want + 2
				return true
			}
			w.flushed = to
			p.at = writerFlushLooksAtWant
			return true
		case writerFlushLooksAtWant:
			want := w.want
			if m.mistake == readsWantBeforeFlushing {
				want = p.oldWant - 2
			}
			armed := !m.isBeyond(w.position, want)
			p.mustRing = p.mustRing || armed && m.mistake != flushesSilently
			m.finishOp(w)
			return true

		case writerQueuesEvent:
			if !w.lock(heldByWriter) {
				return false
			}
			w.published++
			p.at = writerMoves
			return true
		case writerQueuesPriority:
			if !w.lock(heldByWriter) {
				return false
			}
			w.priority++
			p.at = writerNotifiesPriority
			if m.mistake != priorityRingsOnlyTheArmed {
				p.mustRing = true
				m.finishOp(w)
			}
			return true
		case writerNotifiesPriority:
			p.mustRing = !m.isBeyond(w.position, w.want)
			m.finishOp(w)
			return true
		}
	}
}

// moves is how far the op moves the position: the bytes of a buffer, and one.
func (p *writerState) moves(m *model) cursor {
	if m.ops[p.op] == opFinish {
		return cursor(p.written) + 1
	}
	return 1
}

// finishOp rings if it must, and goes on with what comes after.
func (m *model) finishOp(w *world) {
	p := &w.writer
	p.at = p.then
	if p.then == writerStoresFirstByte || p.then == writerCounts {
		p.at = writerLoadsCount // the flush was for a writer that blocks
	}
	p.oldWant = 0
	if p.mustRing {
		p.ring.stage = 1 // the lock is held until it has rung
	} else {
		m.unlock(w)
	}
	p.mustRing = false
}

// The steps of the output flusher. It looks at the writer's private position,
// publishes it and flushes, all under the lock.
const (
	flusherPublishes at = iota + 1
	flusherStoresFlushed
	flusherLooksAtWant
)

func (m *model) stepFlusher(w *world) bool {
	f, p := &w.flusher, &w.writer
	if f.ring.stage > 0 {
		if m.ringConsumer(w, &f.ring); f.ring.stage == 0 {
			m.endTick(w)
		}
		return true
	}
	for {
		switch f.at {
		case ended:
			return false
		case start:
			if m.mistake != flushesWithoutTheLock && !w.lock(heldByFlusher) {
				return false
			}
			f.written = p.written
			f.at = flusherPublishes
			if !p.open {
				f.at = flusherStoresFlushed
			}
			return true
		case flusherPublishes:
			f.at = flusherStoresFlushed
			if f.written > p.committed {
				p.committed = f.written
				w.marker[m.segment[w.published-1]] = marker(f.written, false)
				return true
			}
		case flusherStoresFlushed:
			to := w.position + cursor(p.committed)
			if !m.isBeyond(to, w.flushed) {
				m.endTick(w)
				return true // the lock was an access
			}
			w.flushed = to
			f.at = flusherLooksAtWant
			return true
		case flusherLooksAtWant:
			if !m.isBeyond(w.position, w.want) {
				f.ring.stage = 1
			} else {
				m.endTick(w)
			}
			return true
		}
	}
}

func (m *model) endTick(w *world) {
	f := &w.flusher
	*f = flusherState{ticks: f.ticks - 1}
	if f.ticks == 0 {
		f.at = ended
	}
	if w.writer.lock == heldByFlusher {
		m.unlock(w)
	}
}
