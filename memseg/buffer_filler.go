package memseg

// A filler is the goroutine that was let into a builder to write without a lock. Whoever
// holds the lock of the builder's owner lets it in (LetIn), and takes the builder from
// it again (TakeFrom) before another goroutine does anything with the segment:
//
//	the filler, in Enter:              who takes it, in TakeFrom:
//	  filler is another: no room
//	  store entered = position           store limit = 0
//	  load  limit                        fence in every thread
//	  position+n > limit: no room        load entered, position
//	  write n bytes                      not before it: the filler is in there, limit as before
//	  store position += n                else: a new builder goes on from position
//
// At least one of the two sees the other, though the filler needs plain stores only. And
// since another builder goes on, a filler that was stopped anywhere in between, for however
// long, finds nothing but a limit of 0. What it stores goes into the old one.
//
// The filler is known by its place on its stack, which no other goroutine has. There
// is one way round that: its stack was moved, another goroutine got the place for its
// own stack, writes to the same buffer, and is at it in the very moment in which the
// filler writes for the first time since. That these two have met is not noticed.
type filler struct {
	at        Place
	entered   uint64 // position at which the filler is writing
	goroutine Goroutine
}

// nowhere is the position of a filler that is not writing.
const nowhere = ^uint64(0)

var noFiller = filler{entered: nowhere}

// LetIn makes the calling goroutine, which holds the lock, the one that may Enter.
func (b *BufferBuilder) LetIn(at Place) {
	b.filler = filler{at: at, entered: nowhere, goroutine: ThisGoroutine()}
}

// Enter is Reserve for the goroutine that was let in and is still at that place of its
// stack; for others there is no room. Advance or Leave ends it. n is not negative.
func (b *BufferBuilder) Enter(at Place, n int) []byte {
	if b.filler.at != at {
		return nil
	}
	p := b.pos
	b.filler.entered = p
	end := p + uint64(n)
	if end > loadAcquire(&b.limit) {
		b.Leave()
		return nil
	}
	return b.mem[p:end:end]
}

// Leave ends an Enter of which nothing is to be kept.
func (b *BufferBuilder) Leave() { b.filler.entered = nowhere }

// Follow reports whether the calling goroutine is the one that was let in and has gone
// elsewhere on its stack since. Then it may Enter there.
func (b *BufferBuilder) Follow(at Place) bool {
	if b.filler.at == at || b.filler.at == 0 || b.filler.goroutine != ThisGoroutine() {
		return false
	}
	b.filler.at = at
	return true
}

// Pause lets nobody in until Resume; who has entered stays. The filler calls both.
func (b *BufferBuilder) Pause() { b.filler.at = 0 }

// Resume ends a Pause.
func (b *BufferBuilder) Resume(at Place) { b.filler.at = at }

// TakeFrom takes builders from the goroutine that was let into them, for another one
// that holds the lock: Successor goes on in the place of each, with its limit. If the
// goroutine is writing at the moment, none is taken, and it reports false.
func TakeFrom(builders []*BufferBuilder) (limits []uint64, ok bool) {
	limits = make([]uint64, len(builders))
	for i, b := range builders {
		limits[i] = b.limit
		storeRelease(&b.limit, 0)
	}
	fenceEverywhere()
	for _, b := range builders {
		if b.isEntered() {
			for i, b := range builders {
				storeRelease(&b.limit, limits[i])
			}
			return nil, false
		}
	}
	return limits, true
}

// isEntered reports whether the filler is writing. One that has just advanced may seem
// to be beyond its position, since its next store can be seen before that one: it is
// still at the record before.
func (b *BufferBuilder) isEntered() bool {
	entered := loadAcquire(&b.filler.entered)
	return entered != nowhere && entered >= loadAcquire(&b.pos)
}

// Successor returns a builder that goes on where this one is, into which nobody is let.
func (b *BufferBuilder) Successor(limit uint64) *BufferBuilder {
	next := *b
	next.limit, next.filler = limit, noFiller
	return &next
}

// Stop lets nobody enter any more, whoever was let in, and has nothing more published.
// Who has entered may go on writing where it is.
func (b *BufferBuilder) Stop() {
	storeRelease(&b.limit, 0)
	b.finished = true
}
