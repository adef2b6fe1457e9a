package pool

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A recorder is a GrantListener that counts what it hears.
type recorder struct {
	resized int
	granted []int
	onSize  func()
	onGrant func(n int)
}

func (r *recorder) SizeChanged() {
	r.resized++
	if r.onSize != nil {
		r.onSize()
	}
}

func (r *recorder) Granted(n int) {
	r.granted = append(r.granted, n)
	if r.onGrant != nil {
		r.onGrant(n)
	}
}

func newNetwork(t *testing.T, total int) *NetworkBufferPool {
	p, err := NewNetworkBufferPool(total, 128)
	require.NoError(t, err)
	return p
}

func createGrant(t *testing.T, p *NetworkBufferPool, required, most int) (*Grant, *recorder) {
	r := &recorder{}
	g, err := p.CreateGrant(GrantSpec{Required: required, Max: most}, r)
	require.NoError(t, err)
	return g, r
}

// requireNetworkInvariants checks what holds between any two operations. Grants
// are all that were ever created and may still hold something.
func requireNetworkInvariants(t *testing.T, p *NetworkBufferPool, grants []*Grant) {
	t.Helper()
	p.Settle() // and tells of it
	p.mu.Lock()
	defer p.mu.Unlock()
	var held, lingering, required, reserved, sizes, most, inTurn int
	for _, g := range grants {
		held += g.held
		require.True(t, g.held >= 0 && g.unannounced == 0, "%+v", g)
		canTake := g.wish > 0 && g.held < g.size
		require.True(t, canTake == slices.Contains(g.user.waiting, g), "has a turn exactly while it may have more")
		if canTake {
			inTurn++
		}
		if g.destroyed {
			lingering += g.held
			require.True(t, g.wish == 0)
			continue
		}
		if g.admission != nil {
			require.True(t, g.wish == 0 && g.held == 0)
			continue
		}
		require.True(t, slices.Contains(p.grants, g))
		required += g.spec.Required
		reserved += max(0, g.spec.Required-g.held)
		sizes += g.size
		most += min(p.total, g.spec.Max)
		require.True(t, g.spec.Required <= g.size && g.size <= g.spec.Max, "size %d of %+v", g.size, g.spec)
		if g.wish > 0 {
			require.True(t, p.takeable(g, g.wish) == 0, "no segment stays free that a waiting grant may have")
			require.True(t, g.held+g.wish <= min(p.total, g.spec.Max), "%d held, %d wished", g.held, g.wish)
		}
	}
	require.Equal(t, p.total-held, p.free)
	require.Equal(t, required, p.required)
	require.LessOrEqual(t, p.required, p.total)
	require.Equal(t, reserved, p.reserved)
	require.LessOrEqual(t, held+reserved, p.total, "what is promised is there")
	require.Equal(t, lingering, p.lingering)
	requireUsersInvariants(t, p, grants)
	if p.kept == 0 {
		require.Equal(t, max(required, min(p.total-lingering-p.admissions.allClaimed(), most)), sizes,
			"everything that can be used is handed out")
	}
	for _, u := range p.waiting.users {
		inTurn -= len(u.waiting)
	}
	require.Zero(t, inTurn, "each waits once")
	require.Empty(t, p.announcements)
}

func TestNetworkBufferPoolRejectsArgumentsOutOfRange(t *testing.T) {
	for _, row := range []struct {
		name               string
		total, segmentSize int
	}{
		{"no segments", 0, 128},
		{"negative segments", -1, 128},
		{"more segments than numbers", math.MaxInt32 + 1, 128},
		{"no size", 10, 0},
		{"negative size", 10, -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, err := NewNetworkBufferPool(row.total, row.segmentSize)
			require.ErrorIs(t, err, ErrInvalidArgument)
			require.Nil(t, p)
		})
	}
}

func TestGrantSpecOutOfRangeIsRefused(t *testing.T) {
	p := newNetwork(t, 10)
	for _, spec := range []GrantSpec{{Required: 0, Max: 1}, {Required: -1, Max: 1}, {Required: 2, Max: 1}} {
		_, err := p.CreateGrant(spec, &recorder{})
		require.ErrorIs(t, err, ErrInvalidArgument, "%+v", spec)
	}
	_, err := p.CreateGrant(GrantSpec{Required: 1, Max: 1}, nil)
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.Equal(t, NetworkStats{Total: 10, Available: 10}, p.Stats())
}

func TestRequestAndRecycleAreCounted(t *testing.T) {
	p := newNetwork(t, 10)
	require.Equal(t, NetworkStats{Total: 10, Available: 10}, p.Stats())
	g, _ := createGrant(t, p, 2, 10)
	require.Equal(t, NetworkStats{Total: 10, Available: 10, Reserved: 2, Required: 2, Grants: 1}, p.Stats())
	require.Equal(t, 1, g.Request(1))
	require.Equal(t, NetworkStats{Total: 10, Available: 9, Reserved: 1, Used: 1, Required: 2, Grants: 1}, p.Stats())
	require.Equal(t, 5, g.Request(5))
	require.Equal(t, 6, g.Held())
	require.NoError(t, g.Recycle(4))
	require.Equal(t, NetworkStats{Total: 10, Available: 8, Used: 2, Required: 2, Grants: 1}, p.Stats())
	require.Zero(t, g.Request(0))
	require.Zero(t, g.Request(-1))
}

func TestGrantsTakeTheWholeBudgetBetweenThem(t *testing.T) {
	p := newNetwork(t, 10)
	fixed, _ := createGrant(t, p, 2, 2)
	single, _ := createGrant(t, p, 1, 1)
	unlimited, _ := createGrant(t, p, 5, Unlimited)
	require.Equal(t, GrantSpec{Required: 5, Max: Unlimited}, unlimited.Spec())
	require.Equal(t, 2, fixed.Request(10))
	require.Equal(t, 1, single.Request(10))
	require.Equal(t, 7, unlimited.Request(10))
	require.Zero(t, p.Stats().Available)
	for _, g := range []*Grant{fixed, single, unlimited} {
		require.Zero(t, g.Request(1))
	}
}

func TestGrantThatRequiresMoreThanIsPromisedIsRefusedWithTheNumbers(t *testing.T) {
	p, err := NewNetworkBufferPool(1024, 32768)
	require.NoError(t, err)
	_, err = p.CreateGrant(GrantSpec{Required: 1025, Max: 1025}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers)

	g, _ := createGrant(t, p, 1008, Unlimited)
	_, err = p.CreateGrant(GrantSpec{Required: 17, Max: 17}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
	require.EqualError(t, err, "insufficient number of network buffers: required 17, but only 16 available: "+
		"of 1024 segments of 32768 bytes (--memory, --segment-size), 0 are in use and 1008 more reserved for partitions that require them")
	require.Equal(t, NetworkStats{Total: 1024, Available: 1024, Reserved: 1008, Required: 1008, Grants: 1}, p.Stats())
	require.Equal(t, 1024, g.Size())

	g.Destroy()
	createGrant(t, p, 513, 1024)
	_, err = p.CreateGrant(GrantSpec{Required: 513, Max: 1024}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
}

func TestDestroyedNetworkBufferPoolGivesNothing(t *testing.T) {
	p := newNetwork(t, 10)
	g, hears := createGrant(t, p, 1, 5)
	other, otherHears := createGrant(t, p, 5, 5)
	require.Equal(t, 5, g.Request(5))
	require.Equal(t, 5, other.Request(5))
	require.NoError(t, g.Recycle(1))
	p.Destroy()
	p.Destroy()
	require.Equal(t, NetworkStats{}, p.Stats())
	_, err := p.CreateGrant(GrantSpec{Required: 1, Max: 1}, &recorder{})
	require.ErrorIs(t, err, ErrDestroyed)
	require.Zero(t, g.Request(1))
	require.NoError(t, g.Recycle(4))
	require.ErrorIs(t, g.Recycle(1), ErrUnknownSegment)
	other.Reclaim()
	require.Empty(t, hears.granted)
	require.Empty(t, otherHears.granted)
}

func TestDestroyEndsTheWaitOfGrants(t *testing.T) {
	p := newNetwork(t, 4)
	first, _ := createGrant(t, p, 1, 3)
	second, hears := createGrant(t, p, 1, 3)
	require.Equal(t, 2, first.Request(2))
	require.Equal(t, 2, second.Request(2))
	require.Zero(t, second.Request(1))
	p.Destroy()
	require.Zero(t, second.wish)
	require.NoError(t, first.Recycle(2))
	require.Empty(t, hears.granted)
}
