package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// exhaust returns a grant that requires one segment and holds all but rest, which
// is more than it may keep once others are created.
func exhaust(t *testing.T, p *NetworkBufferPool, rest int) *Grant {
	g, _ := createGrant(t, p, 1, Unlimited)
	require.Equal(t, p.total-rest, g.Request(p.total-rest))
	return g
}

func TestOverProvisionedGrantHandsItsExcessToTheNewOne(t *testing.T) {
	p := newNetwork(t, 1024)
	first, firstHears := createGrant(t, p, 400, 1024)
	require.Equal(t, 1024, first.Size())
	require.Equal(t, 513, first.Request(513))

	second, hears := createGrant(t, p, 500, 1024)
	require.Equal(t, 462, first.Size())
	require.Equal(t, 562, second.Size())
	require.Zero(t, first.Request(1), "holds more than its size already")
	require.Equal(t, 511, second.Request(562))

	require.NoError(t, first.Recycle(1))
	require.Equal(t, []int{1}, hears.granted)
	require.Zero(t, p.Stats().Available)
	require.Equal(t, 512, first.Held())
	require.Equal(t, 512, second.Held())
	require.NoError(t, first.Recycle(50))
	require.Equal(t, []int{1, 50}, hears.granted)
	require.Empty(t, firstHears.granted, "its wish waits until it holds less than its size")
	require.NoError(t, first.Recycle(1))
	require.Equal(t, []int{1}, firstHears.granted)
	require.NoError(t, first.Recycle(1))
	require.Equal(t, 1, p.Stats().Available, "nobody waits any more")
}

func TestWaitingGrantsAreServedInTheOrderOfTheirWaiting(t *testing.T) {
	p := newNetwork(t, 40)
	holder := exhaust(t, p, 3)
	var order []string
	wait := func(name string) (*Grant, *recorder) {
		g, hears := createGrant(t, p, 1, 4)
		hears.onGrant = func(int) { order = append(order, name) }
		return g, hears
	}
	a, _ := wait("a")
	b, _ := wait("b")
	c, _ := wait("c")
	require.Equal(t, []int{4, 3, 3}, []int{a.Size(), b.Size(), c.Size()})
	require.Equal(t, []int{1, 1, 1}, []int{a.Request(4), b.Request(2), c.Request(3)})

	require.NoError(t, holder.Recycle(1))
	require.Equal(t, []string{"a"}, order, "one segment wakes one of three")
	require.Zero(t, c.Request(1), "who waits cannot overtake")
	require.NoError(t, holder.Recycle(4))
	require.Equal(t, []string{"a", "a", "b", "c"}, order)
	require.Equal(t, []int{4, 2, 2}, []int{a.Held(), b.Held(), c.Held()})
	require.NoError(t, holder.Recycle(4))
	require.Equal(t, []string{"a", "a", "b", "c", "c"}, order)
	require.Equal(t, 3, c.Held())
	require.Equal(t, 3, p.Stats().Available)
}

func TestWishIsKeptUntilTheSizeGrows(t *testing.T) {
	p := newNetwork(t, 10)
	g, hears := createGrant(t, p, 1, Unlimited)
	other, _ := createGrant(t, p, 8, 8)
	require.Equal(t, 2, g.Size())
	var sizeSeen int
	hears.onSize = func() { sizeSeen = g.Size() }
	hears.onGrant = func(int) { require.Equal(t, 10, sizeSeen, "the size is told before what it made possible") }
	require.Equal(t, 2, g.Request(6))
	require.Equal(t, 8, p.Stats().Available)
	other.Destroy()
	require.Equal(t, 2, hears.resized)
	require.Equal(t, []int{4}, hears.granted)
	require.Equal(t, 6, g.Held())
}

func TestWishIsLimitedByTheMaximum(t *testing.T) {
	p := newNetwork(t, 10)
	holder := exhaust(t, p, 1)
	g, hears := createGrant(t, p, 1, 4)
	require.Equal(t, 1, g.Request(1))
	for range 100 {
		require.Zero(t, g.Request(3))
	}
	require.Equal(t, 3, g.wish)
	holder.Reclaim()
	require.Equal(t, []int{3}, hears.granted)
	require.Zero(t, g.Request(1))
	require.Zero(t, g.wish)
}

func TestRequiredSegmentsAreThereWhateverOthersHold(t *testing.T) {
	p := newNetwork(t, 12)
	quiet, _ := createGrant(t, p, 5, 5) // asks for what it requires only at the end
	greedy, greedyHears := createGrant(t, p, 1, Unlimited)
	require.Equal(t, 7, greedy.Request(7), "all but what the other one requires")
	require.Equal(t, 5, p.Stats().Available)
	require.NoError(t, greedy.Recycle(3))
	third, _ := createGrant(t, p, 2, 2)
	require.Equal(t, []int{5, 5, 2}, []int{quiet.Size(), greedy.Size(), third.Size()})
	require.Equal(t, 1, greedy.Request(5))
	require.Equal(t, 2, third.Request(2))
	require.Equal(t, 5, quiet.Request(5))
	require.Empty(t, greedyHears.granted)
	require.Zero(t, p.Stats().Available)
	requireNetworkInvariants(t, p, []*Grant{quiet, greedy, third})
}

func TestRequiredSegmentThatWasGivenBackIsThereAgain(t *testing.T) {
	p := newNetwork(t, 4)
	g, _ := createGrant(t, p, 2, 2)
	require.Equal(t, 2, g.Request(2))
	greedy, greedyHears := createGrant(t, p, 1, Unlimited)
	require.Equal(t, 2, greedy.Request(4))
	require.NoError(t, g.Recycle(2))
	require.Empty(t, greedyHears.granted)
	require.Equal(t, 2, g.Request(2))
}

func TestSurplusIsLentFreelyWhileNobodyHoldsTooMuch(t *testing.T) {
	p := newNetwork(t, 10)
	idle, _ := createGrant(t, p, 4, 4)
	busy, _ := createGrant(t, p, 1, Unlimited)
	require.Equal(t, 6, busy.Request(10))
	require.Equal(t, 4, idle.Request(4))
}

func TestReturningMoreThanIsHeldIsAnErrorAndChangesNothing(t *testing.T) {
	p := newNetwork(t, 10)
	g, _ := createGrant(t, p, 3, 3)
	require.ErrorIs(t, g.Recycle(1), ErrUnknownSegment)
	require.Equal(t, 3, g.Request(3))
	require.ErrorIs(t, g.Recycle(4), ErrUnknownSegment)
	require.ErrorIs(t, g.Recycle(-1), ErrInvalidArgument)
	require.Equal(t, 3, g.Held())
	require.Equal(t, 7, p.Stats().Available)
	require.NoError(t, g.Recycle(0))
	require.NoError(t, g.Recycle(3))
	require.Equal(t, 10, p.Stats().Available)
}

func TestDestroyReturnsThePromiseOnceAndKeepsTheChargeOfHeldSegments(t *testing.T) {
	p := newNetwork(t, 10)
	first, firstHears := createGrant(t, p, 4, 10)
	second, secondHears := createGrant(t, p, 4, 10)
	require.Equal(t, 5, first.Request(5))
	require.Equal(t, 5, second.Request(6))
	first.Destroy()
	first.Destroy()
	require.Equal(t, NetworkStats{Total: 10, Used: 10, Required: 4, Grants: 1}, p.Stats())
	require.Equal(t, 5, second.Size(), "the rest is not there")
	require.Zero(t, first.Request(1))
	require.NoError(t, first.Recycle(5))
	require.Equal(t, 10, second.Size())
	require.Equal(t, 1, secondHears.resized)
	require.Equal(t, []int{1}, secondHears.granted)
	require.Equal(t, 4, p.Stats().Available)
	require.Equal(t, 1, firstHears.resized, "as the second was created")
	require.Equal(t, 5, first.Size(), "the last one")
}

func TestReclaimTakesEverythingBackAtOnce(t *testing.T) {
	p := newNetwork(t, 10)
	first, firstHears := createGrant(t, p, 4, 10)
	require.Equal(t, 6, first.Request(6))
	second, secondHears := createGrant(t, p, 4, 10)
	require.Equal(t, 4, second.Request(8))
	first.Reclaim()
	require.Equal(t, []int{4}, secondHears.granted)
	require.Equal(t, NetworkStats{Total: 10, Available: 2, Used: 8, Required: 4, Grants: 1}, p.Stats())
	first.Reclaim()
	first.Destroy()
	require.ErrorIs(t, first.Recycle(1), ErrUnknownSegment)
	require.Zero(t, first.Request(1))
	require.Equal(t, 2, p.Stats().Available)
	require.Empty(t, firstHears.granted)
	second.Destroy()
	require.Equal(t, 8, second.Held())
	second.Reclaim()
	require.Equal(t, NetworkStats{Total: 10, Available: 10}, p.Stats())
}

// A callback that changes the pool is followed by the callbacks of that change,
// and does not contain them.
func TestListenersMayChangeThePoolAndDoNotNest(t *testing.T) {
	p := newNetwork(t, 40)
	holder := exhaust(t, p, 3)
	depth, deepest := 0, 0
	enter := func(f func()) func(int) {
		return func(int) {
			depth++
			deepest = max(deepest, depth)
			f()
			depth--
		}
	}
	var grants [3]*Grant
	var hears [3]*recorder
	for i := range grants {
		grants[i], hears[i] = createGrant(t, p, 1, 4)
		hears[i].onGrant = enter(func() { require.NoError(t, grants[i].Recycle(1)) })
	}
	for i := range grants {
		require.Equal(t, 1, grants[i].Request(2))
	}
	require.NoError(t, holder.Recycle(1))
	for i := range grants {
		require.Equal(t, []int{1}, hears[i].granted, "each passes the segment on")
	}
	require.Equal(t, 1, deepest)
	require.Equal(t, 1, p.Stats().Available)
}

func TestListenerThatEndsTheGrantHearsNoMore(t *testing.T) {
	p := newNetwork(t, 10)
	g, hears := createGrant(t, p, 1, Unlimited)
	other, _ := createGrant(t, p, 8, 8)
	require.Equal(t, 2, g.Request(6))
	hears.onSize = g.Destroy
	other.Destroy()
	require.Equal(t, 2, hears.resized)
	require.Empty(t, hears.granted)
	require.Equal(t, 2, g.Held(), "what it was told of")
	require.Equal(t, 8, p.Stats().Available)
}

func TestSegmentsNotAnnouncedWhenTheGrantEndsAreNotLost(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(*Grant)
		left int
	}{
		{"destroy", (*Grant).Destroy, 1},
		{"reclaim", (*Grant).Reclaim, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newNetwork(t, 40)
			holder := exhaust(t, p, 2)
			first, firstHears := createGrant(t, p, 1, 4)
			second, secondHears := createGrant(t, p, 1, 4)
			require.Equal(t, 1, first.Request(2))
			require.Equal(t, 1, second.Request(2))
			firstHears.onGrant = func(int) {
				// The second has been served too, and its listener waits for this call to end.
				require.Equal(t, 2, second.Held())
				require.ErrorIs(t, second.Recycle(2), ErrUnknownSegment, "nobody can have it yet")
				row.end(second)
				require.Equal(t, row.left, second.Held())
			}
			require.NoError(t, holder.Recycle(2))
			require.Equal(t, []int{1}, firstHears.granted)
			require.Empty(t, secondHears.granted)
			require.Equal(t, 2-row.left, p.Stats().Available)
			requireNetworkInvariants(t, p, []*Grant{holder, first, second})
		})
	}
}
