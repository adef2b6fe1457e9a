package pool

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// queued is a grant that waits to be admitted, or did.
type queued struct {
	*Grant
	recorder
	name string
	let  *[]string // names of those who were admitted, in turn
}

func queueGrant(t *testing.T, p *NetworkBufferPool, name string, required int, let *[]string) *queued {
	q := &queued{name: name, let: let}
	g, waits, err := p.QueueGrant(GrantSpec{Required: required, Max: Unlimited}, &q.recorder, func(g *Grant) {
		q.Grant = g
		*let = append(*let, name)
	})
	require.NoError(t, err)
	require.True(t, waits)
	q.Grant = g
	return q
}

func TestGrantIsNotAdmittedWhileOthersHoldWhatItRequires(t *testing.T) {
	p := newNetwork(t, 10)
	first, hears := createGrant(t, p, 1, Unlimited)
	require.Equal(t, 10, first.Request(10))
	_, err := p.CreateGrant(GrantSpec{Required: 9, Max: 9}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
	require.EqualError(t, err, "insufficient number of network buffers: required 9, but only 0 available: "+
		"of 10 segments of 128 bytes (--memory, --segment-size), 10 are in use and 0 more reserved for partitions that require them")
	require.Equal(t, 10, first.Size())
	require.Zero(t, hears.resized)
}

func TestWaitingAdmissionTakesTheSurplusOfOthersBack(t *testing.T) {
	p := newNetwork(t, 10)
	first, hears := createGrant(t, p, 1, Unlimited)
	require.Equal(t, 9, first.Request(9))
	var let []string
	second := queueGrant(t, p, "second", 9, &let)
	require.Equal(t, 1, hears.resized)
	require.Equal(t, 1, first.Size(), "as if the second one were there")
	require.Zero(t, second.Request(1), "it is not admitted")
	require.NoError(t, first.Recycle(7))
	require.Zero(t, first.Request(2), "what comes back is not for others")
	require.Empty(t, let)
	require.Equal(t, NetworkStats{Total: 10, Available: 8, Used: 2, Required: 1, Grants: 1, Waiting: 1}, p.Stats())
	require.NoError(t, first.Recycle(1))
	require.Equal(t, []string{"second"}, let)
	require.Equal(t, 9, second.Request(9))
	require.NoError(t, second.GiveUp(), "it does not wait any more")
	require.Equal(t, 9, second.Held())
	requireNetworkInvariants(t, p, []*Grant{first, second.Grant})
}

func TestAdmissionThatGivesUpLeavesNoTrace(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(*queued)
	}{
		{"give up", func(q *queued) {
			err := q.GiveUp()
			require.ErrorIs(t, err, ErrInsufficientBuffers)
			require.ErrorContains(t, err, "required 9, but only 0 available")
		}},
		{"destroy", func(q *queued) { q.Destroy() }},
		{"reclaim", func(q *queued) { q.Reclaim() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newNetwork(t, 10)
			first, _ := createGrant(t, p, 1, Unlimited)
			require.Equal(t, 10, first.Request(10))
			var let []string
			second := queueGrant(t, p, "second", 9, &let)
			require.Equal(t, 1, first.Size())
			row.end(second)
			require.Equal(t, 10, first.Size())
			first.Reclaim()
			require.Empty(t, let)
			require.Zero(t, second.Request(1))
			require.Equal(t, NetworkStats{Total: 10, Available: 10}, p.Stats())
			requireNetworkInvariants(t, p, []*Grant{first, second.Grant})
		})
	}
}

func TestAdmissionsAreServedInTheOrderOfTheirComing(t *testing.T) {
	p := newNetwork(t, 20)
	first, _ := createGrant(t, p, 1, Unlimited)
	require.Equal(t, 20, first.Request(20))
	var let []string
	large := queueGrant(t, p, "large", 10, &let)
	small := queueGrant(t, p, "small", 2, &let)
	require.NoError(t, first.Recycle(9))
	require.Empty(t, let, "the small one does not overtake")
	_, err := p.CreateGrant(GrantSpec{Required: 1, Max: 1}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers, "nor does one that is new")
	require.NoError(t, first.Recycle(1))
	require.Equal(t, []string{"large"}, let)
	require.NoError(t, first.Recycle(2))
	require.Equal(t, []string{"large", "small"}, let)
	requireNetworkInvariants(t, p, []*Grant{first, large.Grant, small.Grant})
}

func TestAdmissionThatNeedsTheEndOfOthersHoldsNobodyUp(t *testing.T) {
	p := newNetwork(t, 20)
	first, hears := createGrant(t, p, 10, Unlimited)
	require.Equal(t, 15, first.Request(15))
	var let []string
	large := queueGrant(t, p, "large", 15, &let)
	require.Equal(t, 20, first.Size(), "to take its surplus would not help")
	require.Zero(t, hears.resized)
	other, _ := createGrant(t, p, 5, 5)
	require.Equal(t, 5, other.Request(5))
	other.Reclaim()
	require.Empty(t, let)
	first.Destroy()
	require.NoError(t, first.Recycle(9))
	require.Empty(t, let)
	require.NoError(t, first.Recycle(1))
	require.Equal(t, []string{"large"}, let)
	require.Equal(t, 15, large.Request(15))
	requireNetworkInvariants(t, p, []*Grant{first, other, large.Grant})
}

func TestGrantThatRequiresMoreThanThereIsDoesNotWait(t *testing.T) {
	p := newNetwork(t, 10)
	_, waits, err := p.QueueGrant(GrantSpec{Required: 11, Max: 11}, &recorder{}, func(*Grant) {})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
	require.False(t, waits)
	require.Zero(t, p.Stats().Waiting)
}

func TestQueueOfAdmissionsIsBounded(t *testing.T) {
	p := newNetwork(t, 10)
	first, _ := createGrant(t, p, 10, 10)
	require.Equal(t, 10, first.Request(10))
	var let []string
	for range mostAdmissions {
		queueGrant(t, p, "", 1, &let)
	}
	_, _, err := p.QueueGrant(GrantSpec{Required: 1, Max: 1}, &recorder{}, func(*Grant) {})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
	first.Reclaim()
	require.Len(t, let, 10)
}

func TestAdmissionsEndWithThePool(t *testing.T) {
	p := newNetwork(t, 10)
	first, _ := createGrant(t, p, 10, 10)
	require.Equal(t, 10, first.Request(10))
	var let []string
	second := queueGrant(t, p, "second", 1, &let)
	p.Destroy()
	first.Reclaim()
	require.Empty(t, let)
	require.ErrorIs(t, second.GiveUp(), ErrInsufficientBuffers)
}

func TestLargestHoldersAreNamedFirst(t *testing.T) {
	p := newNetwork(t, 100)
	var grants []*Grant
	var hears []*recorder
	for _, n := range []int{5, 0, 9, 7, 9, 1} {
		g, h := createGrant(t, p, 10, 10)
		require.Equal(t, n, g.Request(n))
		grants, hears = append(grants, g), append(hears, h)
	}
	grants[3].Destroy()
	require.Equal(t, []Holder{{hears[2], 9}, {hears[4], 9}, {hears[3], 7}}, p.LargestHolders(3))
	require.Len(t, p.LargestHolders(10), 5, "those that hold nothing are none")
	require.Empty(t, p.LargestHolders(0))
}

// Whatever happens, what is held and what is still promised are no more than there
// is, and so whoever asks for what it requires has it at once. Grants never give
// anything back here unless they want to.
func TestRandomGrantsAlwaysGetWhatTheyRequire(t *testing.T) {
	random := newRandom(t)
	for round := range 20 {
		const total = 200
		p := newNetwork(t, total)
		p.fewGrants *= round % 2 // with sizes that lag behind, and with ones that do not
		p.SetKept(round % 4 * 20)
		var grants []*Grant
		for range 500 {
			switch n := random.IntN(10); {
			case n < 3:
				required := 1 + random.IntN(20)
				spec := GrantSpec{Required: required, Max: required + random.IntN(100), User: random.Uint32N(4)}
				g, _, err := p.QueueGrant(spec, &recorder{}, func(*Grant) {})
				require.NoError(t, err)
				grants = append(grants, g)
			case len(grants) == 0:
			case n < 7:
				pick(random, grants).Request(random.IntN(50))
			case n < 9:
				g := pick(random, grants)
				require.NoError(t, g.Recycle(random.IntN(g.Held()+1)))
			case n < 10:
				if g := pick(random, grants); random.IntN(2) == 0 {
					g.Destroy()
				} else {
					g.Reclaim()
				}
			}
			p.mu.Lock()
			held, reserved := 0, 0
			for _, g := range grants {
				held += g.held
				reserved += g.unmet()
			}
			p.mu.Unlock()
			require.LessOrEqual(t, held+reserved, total)
		}
		for _, g := range grants {
			if g.destroyed || g.admission != nil || g.held >= g.spec.Required {
				continue
			}
			lacks := g.spec.Required - g.held
			require.Equal(t, lacks, g.Request(lacks))
		}
		requireNetworkInvariants(t, p, grants)
	}
}

func pick(random *rand.Rand, grants []*Grant) *Grant { return grants[random.IntN(len(grants))] }
