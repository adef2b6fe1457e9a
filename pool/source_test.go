package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A scriptedSource hands out the numbers from next on, as many as it has ready,
// and owes the rest.
type scriptedSource struct {
	pool      *LocalBufferPool
	next      int
	ready     int
	requests  []int
	recycled  []int
	destroyed int
	onRecycle func()
}

func (s *scriptedSource) Attach(p *LocalBufferPool) { s.pool = p }

func (s *scriptedSource) Request(n int) []int {
	s.requests = append(s.requests, n)
	n = min(n, s.ready)
	s.ready -= n
	return s.numbers(n)
}

func (s *scriptedSource) numbers(n int) (segments []int) {
	for range n {
		segments = append(segments, s.next)
		s.next++
	}
	return segments
}

func (s *scriptedSource) Recycle(segments []int) {
	s.recycled = append(s.recycled, segments...)
	if s.onRecycle != nil {
		s.onRecycle()
	}
}

func (s *scriptedSource) Destroy() { s.destroyed++ }

func TestLazyDestroyTellsTheSourceOnce(t *testing.T) {
	s := &scriptedSource{ready: 9}
	p := newLocal(t, LocalConfig{Required: 2, Max: 4}, s)
	used := request(t, p, NoChannel)
	p.LazyDestroy()
	p.LazyDestroy()
	require.Equal(t, 1, s.destroyed)
	require.Equal(t, []int{1}, s.recycled)
	require.NoError(t, p.SetNumBuffers(4))
	require.Equal(t, []int{1, 1}, s.requests, "nothing is asked for after the end")
	recycle(t, p, used)
	require.Equal(t, []int{1, 0}, s.recycled)
}

func TestSourceThatHasNothingIsNotAskedAgain(t *testing.T) {
	s := &scriptedSource{ready: 1}
	p := newLocal(t, LocalConfig{Required: 1, Max: 2}, s)
	require.NoError(t, p.SetNumBuffers(2))
	segment := request(t, p, NoChannel)
	require.Equal(t, []int{1, 1}, s.requests)
	require.NoError(t, p.SetNumBuffers(1))
	require.NoError(t, p.SetNumBuffers(2))
	requireNone(t, p)
	require.Equal(t, []int{1, 1}, s.requests, "the second segment is still owed")
	requireLocalInvariants(t, p)
	recycle(t, p, segment)
	p.LazyDestroy()
	requireLocalInvariants(t, p)
}

func TestSegmentsThatComeLaterMakeThePoolAvailable(t *testing.T) {
	s := &scriptedSource{}
	p := newLocal(t, LocalConfig{Required: 2, Max: 2}, s)
	requireNone(t, p)
	available, free := p.Availability(), p.FreeSegment()
	require.NoError(t, p.Granted([]int{1}))
	require.True(t, isClosed(available))
	require.True(t, isClosed(free))
	require.Equal(t, 1, request(t, p, NoChannel))
	require.Equal(t, []int{1, 1}, s.requests)
}

func TestSegmentsThatComeTooLateGoBackToTheSource(t *testing.T) {
	t.Run("after a shrink", func(t *testing.T) {
		s := &scriptedSource{ready: 1}
		p := newLocal(t, LocalConfig{Required: 1, Max: 2}, s)
		require.NoError(t, p.SetNumBuffers(2))
		request(t, p, NoChannel)
		require.NoError(t, p.SetNumBuffers(1))
		available := p.Availability()
		require.NoError(t, p.Granted([]int{1}))
		require.Equal(t, []int{1}, s.recycled)
		require.False(t, isClosed(available))
		requireLocalInvariants(t, p)
	})
	t.Run("after the end", func(t *testing.T) {
		s := &scriptedSource{}
		p := newLocal(t, LocalConfig{Required: 1, Max: 2}, s)
		require.False(t, p.Available())
		p.LazyDestroy()
		require.NoError(t, p.Granted([]int{0}))
		require.Equal(t, []int{0}, s.recycled)
		requireLocalInvariants(t, p)
	})
}

func TestGrantedSegmentsAreChecked(t *testing.T) {
	for _, row := range []struct {
		name     string
		segments []int
	}{
		{"negative", []int{1, -1}},
		{"past the end of the region", []int{1, 8}},
		{"twice", []int{1, 2, 1}},
		{"free in the pool", []int{1, 3}},
		{"handed out", []int{1, 5}},
		{"more than were asked for", []int{0, 1, 2, 4}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newLocal(t, LocalConfig{Required: 5, Max: 8, RequestBatch: 5}, &scriptedSource{})
			require.False(t, p.Available())
			require.NoError(t, p.Granted([]int{5, 3}))
			request(t, p, NoChannel)
			require.ErrorIs(t, p.Granted(row.segments), ErrUnknownSegment)
			requireLocalInvariants(t, p)
			require.Equal(t, 1, p.Free(), "none was taken")
			require.NoError(t, p.Granted([]int{1, 2, 4}))
		})
	}
}

func TestSourceThatReturnsUnaskedSegmentsPanics(t *testing.T) {
	p := newLocal(t, LocalConfig{Required: 1, Max: 1}, &scriptedSource{next: 1, ready: 1})
	require.Panics(t, func() { _, _, _ = p.TryRequest(NoChannel) })
}

func TestBatchesGrowWithWhatIsInUse(t *testing.T) {
	s := &scriptedSource{}
	p := newLocal(t, LocalConfig{Required: 2, Max: 40, RequestBatch: 8}, s)
	asked := func(want ...int) {
		t.Helper()
		require.Equal(t, want, s.requests)
		s.requests = nil
	}
	grant := func(n int) { require.NoError(t, p.Granted(s.numbers(n))) }
	require.NoError(t, p.SetNumBuffers(20))
	asked()
	requireNone(t, p)
	asked(2) // what is required
	grant(2)
	requestAll(t, p, 1)
	asked() // half of two is there
	requestAll(t, p, 1)
	asked(2) // two are in use
	grant(2)
	requestAll(t, p, 2)
	asked(2) // three are in use, and one is there
	grant(2)
	requestAll(t, p, 2)
	asked(4)
	grant(4)
	requestAll(t, p, 4)
	asked(4) // to seven, and then half of the largest batch is owed
	grant(4)
	requestAll(t, p, 4)
	asked(5)
	grant(5)
	requestAll(t, p, 2)
	asked(1) // the rest of the size
	grant(1)
	requestAll(t, p, 4)
	requireNone(t, p)
	asked()
	require.Equal(t, 20, p.Requested())
}

// The source may call the pool from its methods: no lock is held.
func TestSourceMayCallBackIntoThePool(t *testing.T) {
	s := &scriptedSource{ready: 2}
	p := newLocal(t, LocalConfig{Required: 1, Max: 2}, s)
	calls := 0
	s.onRecycle = func() {
		calls++
		p.LazyDestroy()
		require.Zero(t, p.Free())
	}
	require.NoError(t, p.SetNumBuffers(2))
	recycle(t, p, requestAll(t, p, 2)...)
	require.NoError(t, p.SetNumBuffers(1))
	require.Equal(t, 2, calls, "for the shrink, and inside of it for the end")
	require.Equal(t, []int{0, 1}, s.recycled)
}

func TestPoolThatNobodyHasUsedFetchesNothing(t *testing.T) {
	s := &scriptedSource{}
	p := newLocal(t, LocalConfig{Required: 5, Max: 20, RequestBatch: 8}, s)
	require.NoError(t, p.SetNumBuffers(20))
	p.GiveBackIdle()
	require.Empty(t, s.requests)
	for name, want := range map[string]func(){
		"request":      func() { requireNone(t, p) },
		"available":    func() { require.False(t, p.Available()) },
		"availability": func() { require.False(t, isClosed(p.Availability())) },
		"free segment": func() { require.False(t, isClosed(p.FreeSegment())) },
	} {
		s := &scriptedSource{}
		p = newLocal(t, LocalConfig{Required: 5, Max: 20, RequestBatch: 8}, s)
		want()
		require.Equal(t, []int{5}, s.requests, name)
		want()
		require.Equal(t, []int{5}, s.requests, name)
	}
}

// What was free during two whole spans is not needed: nothing of a burst that was
// between them is.
func TestPoolThatIsUsedLessGivesBackWhatItDoesNotUse(t *testing.T) {
	s := &scriptedSource{ready: 100}
	p := newLocal(t, LocalConfig{Required: 2, Max: 100, RequestBatch: 8}, s)
	require.NoError(t, p.SetNumBuffers(100))
	p.GiveBackIdle()
	recycle(t, p, requestAll(t, p, 60)...)
	had := p.Requested()
	for range 2 { // the burst lies in the span that ends, and in the one before
		p.GiveBackIdle()
		require.Equal(t, had, p.Requested())
		recycle(t, p, requestAll(t, p, 3)...)
	}
	p.GiveBackIdle()
	require.Equal(t, 3+2, p.Requested(), "three were used, and two are the stock of an idle pool of this size")
	require.NotEmpty(t, s.recycled)
}

func TestIdlePoolKeepsNoneAndFetchesAgainWhenItIsUsed(t *testing.T) {
	s := &scriptedSource{ready: 100}
	p := newLocal(t, LocalConfig{Required: 2, Max: 100, RequestBatch: 8}, s)
	require.NoError(t, p.SetNumBuffers(100))
	segments := requestAll(t, p, 60)
	recycle(t, p, segments[1:]...)
	for range 3 {
		require.Positive(t, p.Free())
		p.GiveBackIdle()
	}
	require.Equal(t, 1, p.Requested(), "the one in use")
	s.requests = nil
	require.NoError(t, p.SetNumBuffers(50))
	require.NoError(t, p.SetNumBuffers(100))
	require.Empty(t, s.requests, "a size is nothing to use")
	recycle(t, p, segments[0])
	for range 3 {
		p.GiveBackIdle()
	}
	require.Zero(t, p.Requested())
	s.ready = 2
	request(t, p, NoChannel)
	require.Equal(t, 2, s.requests[0])
}
