package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func newLocal(t *testing.T, config LocalConfig, source Source) *LocalBufferPool {
	p, err := NewLocalBufferPool(config, source)
	require.NoError(t, err)
	return p
}

func createLocal(t *testing.T, network *NetworkBufferPool, config LocalConfig) *LocalBufferPool {
	p, err := network.CreateLocalPool(config)
	require.NoError(t, err)
	return p
}

func request(t *testing.T, p *LocalBufferPool, channel int) int {
	t.Helper()
	segment, ok, err := p.TryRequest(channel)
	require.NoError(t, err)
	require.True(t, ok, "a segment is free")
	requireLocalInvariants(t, p)
	return segment
}

func requestAll(t *testing.T, p *LocalBufferPool, n int) []int {
	t.Helper()
	segments := make([]int, n)
	for i := range segments {
		segments[i] = request(t, p, NoChannel)
	}
	return segments
}

func requireNone(t *testing.T, p *LocalBufferPool) {
	t.Helper()
	_, ok, err := p.TryRequest(NoChannel)
	require.NoError(t, err)
	require.False(t, ok)
	requireLocalInvariants(t, p)
}

func recycle(t *testing.T, p *LocalBufferPool, segments ...int) {
	t.Helper()
	for _, segment := range segments {
		p.Recycle(segment, NoChannel)
		requireLocalInvariants(t, p)
	}
}

// requireLocalInvariants checks what holds between any two operations of one
// goroutine.
func requireLocalInvariants(t *testing.T, p *LocalBufferPool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	free, handedOut := 0, 0
	for _, state := range p.segments {
		switch state {
		case segmentFree:
			free++
		case segmentHandedOut:
			handedOut++
		}
	}
	require.Equal(t, free, p.free.len())
	require.Equal(t, p.requested, free+handedOut)
	atQuota, charged := 0, 0
	for _, n := range p.perChannel {
		require.True(t, n >= 0)
		charged += n
		if n >= p.config.MaxBuffersPerChannel {
			atQuota++
		}
	}
	require.Equal(t, atQuota, p.atQuota)
	require.LessOrEqual(t, charged, handedOut)
	require.Equal(t, p.destroyed || free > 0 && atQuota == 0, p.isAvailable())
	if p.destroyed {
		require.Zero(t, free)
		return
	}
	require.GreaterOrEqual(t, p.size, p.config.Required)
	require.LessOrEqual(t, p.size, p.config.Max)
	if p.requested > p.size {
		require.Zero(t, free, "only handed-out segments exceed the size")
	}
	if p.drawing && free == 0 && p.requested < p.size {
		require.Positive(t, p.pending, "a segment has been asked for")
	}
}

func TestLocalConfigOutOfRangeIsRefused(t *testing.T) {
	for _, row := range []struct {
		name   string
		config LocalConfig
	}{
		{"nothing required", LocalConfig{Required: 0, Max: 1}},
		{"max below required", LocalConfig{Required: 2, Max: 1}},
		{"negative subpartitions", LocalConfig{Required: 1, Max: 1, Subpartitions: -1}},
		{"negative quota", LocalConfig{Required: 1, Max: 1, MaxBuffersPerChannel: -1}},
		{"negative batch", LocalConfig{Required: 1, Max: 1, RequestBatch: -1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := NewLocalBufferPool(row.config, &scriptedSource{})
			require.ErrorIs(t, err, ErrInvalidArgument)
			network := newNetwork(t, 10)
			_, err = network.CreateLocalPool(row.config)
			require.ErrorIs(t, err, ErrInvalidArgument)
			require.Zero(t, network.Stats().Grants)
		})
	}
	_, err := NewLocalBufferPool(LocalConfig{Required: 1, Max: 1}, nil)
	require.ErrorIs(t, err, ErrInvalidArgument)
}

func TestPoolFetchesOneSegmentAhead(t *testing.T) {
	network := newNetwork(t, 1024)
	p := createLocal(t, network, LocalConfig{Required: 1, Max: Unlimited})
	require.Equal(t, 1024, p.Size())
	require.Zero(t, p.Free(), "nobody has wanted one")
	require.Zero(t, network.Stats().Used)
	var segments []int
	for i := 1; i <= 1024; i++ {
		segments = append(segments, request(t, p, NoChannel))
		require.Equal(t, min(i+1, 1024), network.Stats().Used)
		require.Equal(t, i, p.Used())
		require.Equal(t, i-1, segments[i-1], "the lowest number of the region")
	}
	requireNone(t, p)
	recycle(t, p, segments...)
	require.Equal(t, 1024, p.Free())
	require.Equal(t, 1024, p.Requested())
	require.Equal(t, 1024, network.Stats().Used, "the pool keeps what it may have")
	p.LazyDestroy()
	require.Equal(t, NetworkStats{Total: 1024, Available: 1024}, network.Stats())
}

func TestFreeSegmentsAreReusedFirstInFirstOut(t *testing.T) {
	p := createLocal(t, newNetwork(t, 4), LocalConfig{Required: 4, Max: 4})
	requestAll(t, p, 4)
	recycle(t, p, 2, 0, 3, 1)
	require.Equal(t, []int{2, 0}, requestAll(t, p, 2))
	recycle(t, p, 0, 2)
	require.Equal(t, []int{3, 1, 0, 2}, requestAll(t, p, 4))
}

func TestDestroyedPoolRefusesRequestsAndDoesNotFetch(t *testing.T) {
	network := newNetwork(t, 1024)
	p := createLocal(t, network, LocalConfig{Required: 1, Max: Unlimited})
	require.NoError(t, p.SetNumBuffers(2))
	require.Equal(t, 2, p.Size())
	require.True(t, p.Available())
	require.Equal(t, 1, p.Free())
	p.LazyDestroy()
	require.NoError(t, p.SetNumBuffers(3))
	require.Equal(t, 3, p.Size())
	require.Zero(t, p.Free())
	require.Zero(t, p.Requested())
	_, ok, err := p.TryRequest(NoChannel)
	require.ErrorIs(t, err, ErrDestroyed)
	require.False(t, ok)
	require.Equal(t, 1024, network.Stats().Available)
}

func TestDestroyedPoolReturnsEverySegmentToItsSource(t *testing.T) {
	network := newNetwork(t, 1024)
	p := createLocal(t, network, LocalConfig{Required: 1, Max: Unlimited})
	segments := requestAll(t, p, 1024)
	p.LazyDestroy()
	require.Equal(t, 1024, network.Stats().Used)
	require.Zero(t, network.Stats().Grants)
	for i, segment := range segments {
		recycle(t, p, segment)
		require.Equal(t, 1024-i-1, network.Stats().Used)
	}
	require.Zero(t, p.Requested())
}

func TestShrunkPoolReturnsHandedOutSegmentsAsTheyAreRecycled(t *testing.T) {
	network := newNetwork(t, 1024)
	p := createLocal(t, network, LocalConfig{Required: 1, Max: Unlimited})
	segments := requestAll(t, p, 1024)
	require.NoError(t, p.SetNumBuffers(512))
	require.Equal(t, 1024, network.Stats().Used)
	for i, segment := range segments {
		recycle(t, p, segment)
		require.Equal(t, max(512, 1024-i-1), p.Requested())
		require.Equal(t, p.Requested(), network.Stats().Used)
	}
	require.Equal(t, 512, p.Free())
}

func TestShrunkPoolReturnsFreeSegmentsAtOnce(t *testing.T) {
	network := newNetwork(t, 1024)
	p := createLocal(t, network, LocalConfig{Required: 1, Max: Unlimited})
	recycle(t, p, requestAll(t, p, 1024)...)
	require.Equal(t, 1024, p.Free())
	require.NoError(t, p.SetNumBuffers(512))
	require.Equal(t, 512, p.Free())
	require.Equal(t, 512, network.Stats().Available)
}

func TestSizeBelowTheRequiredIsRefused(t *testing.T) {
	p := createLocal(t, newNetwork(t, 10), LocalConfig{Required: 2, Max: 5})
	require.ErrorIs(t, p.SetNumBuffers(1), ErrInvalidArgument)
	require.ErrorIs(t, p.SetNumBuffers(0), ErrInvalidArgument)
	require.Equal(t, 5, p.Size())
}

func TestBoundedPoolNeverExceedsItsMaximum(t *testing.T) {
	p := createLocal(t, newNetwork(t, 1024), LocalConfig{Required: 1, Max: 2})
	require.NoError(t, p.SetNumBuffers(1))
	segment := request(t, p, NoChannel)
	require.Zero(t, p.Free())
	requireNone(t, p)
	recycle(t, p, segment)
	require.Equal(t, 1, p.Free())

	for _, n := range []int{2, 3} {
		require.NoError(t, p.SetNumBuffers(n))
		require.Equal(t, 2, p.Size())
		segments := requestAll(t, p, 2)
		requireNone(t, p)
		recycle(t, p, segments...)
	}
	require.NoError(t, p.SetNumBuffers(1))
	require.Equal(t, 1, p.Free())
}

func TestAvailabilityFollowsSizeAndRecycling(t *testing.T) {
	p := createLocal(t, newNetwork(t, 1024), LocalConfig{Required: 1, Max: 5})
	require.NoError(t, p.SetNumBuffers(1))
	require.True(t, p.Available())
	require.True(t, isClosed(p.Availability()))
	kept := request(t, p, NoChannel)
	require.False(t, p.Available())
	waiting := p.Availability()
	require.False(t, isClosed(waiting))

	require.NoError(t, p.SetNumBuffers(5))
	require.True(t, isClosed(waiting))
	var segments []int
	for range 4 {
		require.True(t, p.Available())
		segments = append(segments, request(t, p, NoChannel))
	}
	require.False(t, p.Available())

	recycle(t, p, segments[0])
	require.True(t, p.Available())
	recycle(t, p, segments[1:]...)
	require.NoError(t, p.SetNumBuffers(2))
	require.True(t, p.Available())
	segment := request(t, p, NoChannel)
	require.False(t, p.Available())
	recycle(t, p, segment)
	require.True(t, p.Available())

	require.NoError(t, p.SetNumBuffers(1))
	require.False(t, p.Available())
	waiting = p.Availability()
	recycle(t, p, kept)
	require.True(t, isClosed(waiting))
	require.True(t, p.Available())
}

func TestOneSegmentServesOneOfTwoWaiters(t *testing.T) {
	p := createLocal(t, newNetwork(t, 1), LocalConfig{Required: 1, Max: 1})
	segment := request(t, p, NoChannel)
	first, second := p.FreeSegment(), p.FreeSegment()
	recycle(t, p, segment)
	require.True(t, isClosed(first))
	require.True(t, isClosed(second))
	request(t, p, NoChannel)
	requireNone(t, p)
	require.False(t, isClosed(p.FreeSegment()), "the other one waits again")
}

func TestWaitersOfADestroyedPoolWakeUpAndFail(t *testing.T) {
	p := createLocal(t, newNetwork(t, 1), LocalConfig{Required: 1, Max: 1})
	request(t, p, NoChannel)
	results := make(chan error)
	for _, wait := range []func() <-chan struct{}{p.Availability, p.FreeSegment} {
		waiting := wait()
		go func() {
			<-waiting
			_, _, err := p.TryRequest(NoChannel)
			results <- err
		}()
	}
	p.LazyDestroy()
	require.ErrorIs(t, <-results, ErrDestroyed)
	require.ErrorIs(t, <-results, ErrDestroyed)
	require.True(t, p.Available())
	require.True(t, isClosed(p.Availability()))
}

func TestRecyclingWhatIsNotHandedOutPanics(t *testing.T) {
	p := createLocal(t, newNetwork(t, 2), LocalConfig{Required: 2, Max: 2, Subpartitions: 2, MaxBuffersPerChannel: 1})
	segment := request(t, p, 0)
	for _, row := range []struct {
		name             string
		segment, channel int
	}{
		{"free", 1, 0},
		{"negative", -1, 0},
		{"never seen", 100, 0},
		{"channel that has none", segment, 1},
		{"channel that does not exist", segment, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Panics(t, func() { p.Recycle(row.segment, row.channel) })
			requireLocalInvariants(t, p)
		})
	}
	p.Recycle(segment, 0)
	require.Panics(t, func() { p.Recycle(segment, 0) }, "a second time")
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	p := createLocal(t, newNetwork(t, 16), LocalConfig{Required: 16, Max: 16, Subpartitions: 4,
		MaxBuffersPerChannel: 10})
	recycle(t, p, requestAll(t, p, 16)...)
	allocations := testing.AllocsPerRun(100, func() {
		var segments [16]int
		for i := range segments {
			segments[i], _, _ = p.TryRequest(i % 4)
		}
		for i, segment := range segments {
			p.Recycle(segment, i%4)
		}
	})
	require.Zero(t, allocations)
}

func BenchmarkTryRequestAndRecycle(b *testing.B) {
	network, err := NewNetworkBufferPool(128, DefaultSegmentSize)
	require.NoError(b, err)
	p, err := network.CreateLocalPool(LocalConfig{Required: 128, Max: 128, Subpartitions: 4, MaxBuffersPerChannel: 10})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		segment, _, _ := p.TryRequest(1)
		p.Recycle(segment, 1)
	}
}
