package pool

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalPoolsFollowRedistribution(t *testing.T) {
	network := newNetwork(t, 10)
	first := createLocal(t, network, LocalConfig{Required: 1, Max: 10})
	require.Equal(t, 10, first.Size())
	second := createLocal(t, network, LocalConfig{Required: 1, Max: 10})
	require.Equal(t, []int{5, 5}, []int{first.Size(), second.Size()})
	others, _ := createGrant(t, network, 6, 6)
	require.Equal(t, []int{2, 2}, []int{first.Size(), second.Size()})
	require.Equal(t, 10, network.Stats().Available, "nobody has wanted a segment")
	require.Equal(t, 6, others.Request(6))
	others.Reclaim()
	first.LazyDestroy()
	require.Equal(t, 10, second.Size())
}

func TestOverProvisionedLocalPoolHandsItsExcessToTheNewOne(t *testing.T) {
	network := newNetwork(t, 1024)
	first := createLocal(t, network, LocalConfig{Required: 500, Max: 1024})
	segments := requestAll(t, first, 700)
	recycle(t, first, segments[600:]...)
	_, err := network.CreateLocalPool(LocalConfig{Required: 513, Max: 1024})
	require.ErrorIs(t, err, ErrInsufficientBuffers, "what the first one uses does not come at once")
	require.Equal(t, 1024, first.Size())
	require.Equal(t, 601, first.Requested(), "what was free was given back, and one fetched ahead again")

	recycle(t, first, segments[:100]...)
	require.Equal(t, 601, first.Requested())
	requestAll(t, first, 100)
	recycle(t, first, segments[100:200]...)
	second := createLocal(t, network, LocalConfig{Required: 510, Max: 1024})
	require.Equal(t, []int{507, 517}, []int{first.Size(), second.Size()})
	require.Equal(t, 507, first.Requested())
	requestAll(t, second, 517)
	requireNone(t, second)
	waiting := second.Availability()
	first.LazyDestroy()
	require.True(t, isClosed(waiting))
	require.Equal(t, 500, first.Requested(), "in use")
	requestAll(t, second, 7)
	requireNone(t, second)
}

func TestEmptyBudgetWakesAllPoolsThatWaitForIt(t *testing.T) {
	network := newNetwork(t, 20)
	holder, _ := createGrant(t, network, 10, 10)
	require.Equal(t, 10, holder.Request(10))
	pools := []*LocalBufferPool{
		createLocal(t, network, LocalConfig{Required: 5, Max: 10}),
		createLocal(t, network, LocalConfig{Required: 5, Max: 10}),
	}
	var waiting []<-chan struct{}
	for _, p := range pools {
		requestAll(t, p, 5)
		requireNone(t, p)
		waiting = append(waiting, p.Availability())
	}
	holder.Destroy()
	require.False(t, isClosed(waiting[0]), "what the holder keeps is not there")
	require.NoError(t, holder.Recycle(1))
	require.True(t, isClosed(waiting[0]))
	require.False(t, isClosed(waiting[1]))
	holder.Reclaim()
	require.True(t, isClosed(waiting[1]))
	for _, p := range pools {
		require.Equal(t, 10, p.Size())
		requestAll(t, p, 5)
		requireNone(t, p)
	}
}

func TestLocalPoolThatCannotBePromisedLeavesNoTrace(t *testing.T) {
	network := newNetwork(t, 10)
	_, err := network.CreateLocalPool(LocalConfig{Required: 11, Max: 11})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
	network.Destroy()
	_, err = network.CreateLocalPool(LocalConfig{Required: 1, Max: 1})
	require.ErrorIs(t, err, ErrDestroyed)
}

func TestShrunkAndGrownPoolUsesTheLowestSegmentsOfItsRegion(t *testing.T) {
	network := newNetwork(t, 8)
	p := createLocal(t, network, LocalConfig{Required: 1, Max: 8})
	segments := requestAll(t, p, 8)
	recycle(t, p, segments[3], segments[6], segments[1])
	require.Equal(t, 8, p.Requested())
	other, waits, err := network.QueueGrant(GrantSpec{Required: 7, Max: 7}, &recorder{}, func(*Grant) {})
	require.NoError(t, err)
	require.True(t, waits)
	require.Equal(t, 1, p.Size())
	require.Equal(t, 5, p.Requested())
	other.Destroy()
	require.Equal(t, []int{1, 3, 6}, requestAll(t, p, 3))
}

// Many goroutines on one pool: none waits for ever, nothing is lost.
func TestManyGoroutinesShareOnePool(t *testing.T) {
	const goroutines, rounds = 128, 200
	network := newNetwork(t, 128)
	p := createLocal(t, network, LocalConfig{Required: 1, Max: 128, Subpartitions: 4, MaxBuffersPerChannel: 8})
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() { requestAndRecycle(t, p, i%4, rounds) })
	}
	wg.Wait()
	require.Zero(t, p.Used())
	requireLocalInvariants(t, p)
	p.LazyDestroy()
	require.Equal(t, 128, network.Stats().Available)
}

// Producers work while redistribution moves what they have between them. That
// every one comes to its end shows that no wake-up is lost.
func TestPoolsWorkWhileOthersComeAndGo(t *testing.T) {
	const producers, rounds = 4, 500
	network := newNetwork(t, 16)
	var pools []*LocalBufferPool
	var working, churning sync.WaitGroup
	for i := range producers {
		p := createLocal(t, network, LocalConfig{Required: 1, Max: Unlimited, RequestBatch: 1 + 3*(i%2)})
		pools = append(pools, p)
		for range 3 {
			working.Go(func() { requestAndRecycle(t, p, NoChannel, rounds) })
		}
	}
	done := make(chan struct{})
	for i := range 2 {
		churning.Go(func() {
			for !isClosed(done) {
				p, err := network.CreateLocalPool(LocalConfig{Required: 3 + i, Max: 6})
				if err != nil {
					t.Errorf("create pool: %v", err)
					return
				}
				requestAndRecycle(t, p, NoChannel, 3)
				p.LazyDestroy()
			}
		})
	}
	working.Wait()
	close(done)
	churning.Wait()
	for _, p := range pools {
		requireLocalInvariants(t, p)
		require.Zero(t, p.Used())
		require.Equal(t, p.source.(*grantSource).grant.Size(), p.Size())
		p.LazyDestroy()
		require.Zero(t, p.Requested())
	}
	require.Equal(t, NetworkStats{Total: 16, Available: 16}, network.Stats())
}

// requestAndRecycle takes a segment and gives it back, many times, waiting
// whenever there is none.
func requestAndRecycle(t *testing.T, p *LocalBufferPool, channel, rounds int) {
	for range rounds {
		for {
			segment, ok, err := p.TryRequest(channel)
			if err != nil {
				t.Errorf("request: %v", err)
				return
			}
			if ok {
				p.Recycle(segment, channel)
				break
			}
			<-p.FreeSegment()
		}
	}
}
