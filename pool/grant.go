package pool

import (
	"container/list"
	"fmt"
	"math"
)

// Unlimited as a maximum stands for as many segments as there are.
const Unlimited = math.MaxInt

// A GrantSpec says what a grant needs and what it could use, in segments.
type GrantSpec struct {
	// Required is promised for as long as the grant lives; at least 1.
	Required int
	// Max is the most that the grant can use, at least Required, or Unlimited.
	Max int
	// User is who the grant is for, a number that means nothing to the pool: what is
	// surplus is shared among users before it is shared among the grants of each, and
	// what SetKept keeps is for users that have little.
	User uint32
	// MayUseKept says that what is required may be of the segments that SetKept keeps,
	// whatever the user has.
	MayUseKept bool
}

func (s GrantSpec) validate() error {
	if s.Required <= 0 {
		return fmt.Errorf("required is %d segments, want at least 1: %w", s.Required, ErrInvalidArgument)
	}
	if s.Max < s.Required {
		return fmt.Errorf("max is %d segments, want at least the required %d: %w", s.Max, s.Required,
			ErrInvalidArgument)
	}
	return nil
}

// A GrantListener hears what happens to a grant through the doings of others.
//
// Its methods are called with no lock held, on the goroutine of whoever changed
// the pool, one at a time for the whole pool. They may call any method of pool
// and grant but must not block: other grants wait behind them.
//
// Destroy and Reclaim call off what has not been told yet. Only a call that
// another goroutine is about to make at that moment may still come. After Destroy,
// the segments that it tells of are to be recycled; after Reclaim, it is to be
// ignored.
type GrantListener interface {
	// SizeChanged is called after redistribution has changed the size of the
	// grant; [Grant.Size] tells the present one. It comes before a Granted that the
	// new size made possible. Several changes may be told by one call.
	SizeChanged()
	// Granted is called when n segments that an earlier Request asked for and did
	// not get have been charged to the grant. They are held now, and there is
	// nothing to request again.
	Granted(n int)
}

// A Grant is the share of one partition in a NetworkBufferPool: a promise of what
// it requires, a size that follows from redistribution, and the number of
// segments that it holds. It may hold more than its size for a while after a
// redistribution, until enough of them are recycled.
//
// All methods may be called from any number of goroutines. After Destroy or
// Reclaim, Request gets nothing; segments that are still held may be recycled.
type Grant struct {
	pool     *NetworkBufferPool
	spec     GrantSpec
	user     *user
	listener GrantListener
	// admittedAtOnce says that it did not wait to be admitted.
	admittedAtOnce bool
	admitted       func(*Grant) // of QueueGrant

	// The fields below are guarded by pool.mu.
	size      int
	held      int
	wish      int // asked for and not got
	destroyed bool

	admission *list.Element // in pool.admissions, nil once admitted
	claims    bool          // while there: segments are kept for it
	standing  standing      // while there

	waitsSince uint64 // while it has a wish: which of all wishes it was
	place      int    // among user.waiting, counted from 1; 0 while not there

	// While sizes are set.
	nextSize int
	isExact  bool

	// What the listener has not been told yet.
	listed       bool // in pool.announcements
	admittedNews bool
	resized      bool
	unannounced  int // segments among held
}

func (g *Grant) before(other *Grant) bool { return g.waitsSince < other.waitsSince }

func (g *Grant) placeIn() *int { return &g.place }

// Spec returns what the grant was created with.
func (g *Grant) Spec() GrantSpec { return g.spec }

// Size returns the number of segments that the grant may hold at present. It
// lies between Required and Max. It stays as it was when the grant is destroyed.
//
// With more than a thousand grants it may lack the segment that is left of a division,
// and listeners hear of a change later: once an eighth of the grants or of the surplus
// has changed, or with Settle.
func (g *Grant) Size() int {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return g.pool.sizeNow(g)
}

// Held returns the number of segments that are charged to the grant.
func (g *Grant) Held() int {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return g.held
}

// Request asks for n more segments and returns how many of them the grant holds
// from now on: as many as it lacks of what it requires, and others as they are free.
// The rest is remembered on top of what earlier requests still lack, and is announced
// with [GrantListener.Granted] when segments come back or the size of the grant grows;
// waiting grants are served in the order in which they began to wait, those of the user
// who has least first. Held and wished
// segments together never exceed the maximum; what exceeds it is not remembered. A
// grant that is not admitted gets nothing, and nothing is remembered.
func (g *Grant) Request(n int) int {
	p := g.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.destroyed || g.destroyed || g.admission != nil {
		return 0
	}
	n = min(n, min(g.spec.Max, p.total)-g.held-g.wish)
	if n <= 0 {
		return 0
	}
	// A grant that waits has been given what it may have; so it gets nothing here
	// and cannot overtake itself or others.
	if g.wish == 0 {
		p.resize(g, p.sizeNow(g))
	}
	got := p.takeable(g, n)
	p.move(g, got)
	if got < n {
		if g.wish == 0 {
			p.waiting.begin(g)
		}
		g.wish += n - got
		p.waiting.update(g)
	}
	return got
}

// Recycle gives n segments back to the budget. It returns ErrUnknownSegment if
// the grant does not hold so many, counting those only that Request or Granted
// has told of, and ErrInvalidArgument if n is negative; nothing is recycled then.
func (g *Grant) Recycle(n int) error {
	p := g.pool
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	if n < 0 {
		return fmt.Errorf("recycle %d segments, want 0 or more: %w", n, ErrInvalidArgument)
	}
	if held := g.held - g.unannounced; n > held {
		return fmt.Errorf("recycle %d segments, but only %d are held: %w", n, held, ErrUnknownSegment)
	}
	p.giveBack(g, n)
	return nil
}

// Destroy gives the promise back; other grants may grow by it at once. Segments
// that are held stay charged until they are recycled or reclaimed. A grant that
// waits to be admitted waits no more. It may be called more than once.
func (g *Grant) Destroy() {
	p := g.pool
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	p.destroyGrant(g)
	p.changed()
}

// Reclaim destroys the grant and takes back everything it holds. It is for the
// end of the region: when its memory is gone, nobody can use a segment of it any
// more. It may be called more than once; Recycle finds nothing held afterwards.
func (g *Grant) Reclaim() {
	p := g.pool
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	p.destroyGrant(g)
	p.move(g, -g.held)
	p.changed()
}

// giveBack takes n segments from the grant. Those it still requires, and has
// asked for, it gets again; others go to grants that wait to be admitted, and then to
// those that wait for more. The caller holds the lock.
func (p *NetworkBufferPool) giveBack(g *Grant, n int) {
	if n == 0 {
		return
	}
	p.move(g, -n)
	p.waiting.update(g)
	if n := min(g.wish, g.unmet()); n > 0 && !p.destroyed {
		p.grant(g, n)
	}
	if g.destroyed {
		p.changes++ // what lingered is surplus now
	}
	p.handOn()
}

// unmet returns how many of the required segments the grant does not hold. The
// caller holds the lock.
func (g *Grant) unmet() int {
	if g.destroyed || g.admission != nil {
		return 0
	}
	return max(0, g.spec.Required-g.held)
}
