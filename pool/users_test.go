package pool

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireUsersInvariants checks what users have, and that the surplus is divided among
// them by max-min fairness: all who could use more have the same, counting what lingers,
// but for one segment. The lock is held and sizes are set.
func requireUsersInvariants(t *testing.T, p *NetworkBufferPool, grants []*Grant) {
	t.Helper()
	type sums struct{ live, required, has, lingers, surplus, most int }
	users := make(map[*user]*sums)
	for _, g := range grants {
		u := users[g.user]
		if u == nil {
			u = &sums{}
			users[g.user] = u
		}
		u.has += g.held
		switch {
		case g.destroyed:
			u.lingers += g.held
			continue
		case g.admission == nil:
			u.has += max(0, g.spec.Required-g.held)
			u.required += g.spec.Required
			u.surplus += g.size - g.spec.Required
			u.most += min(p.total, g.spec.Max-g.spec.Required)
		}
		u.live++
	}
	known, given := 0, 0
	for u, s := range users {
		if p.usersByID[u.id] != u {
			require.Zero(t, *s, "user %d was forgotten", u.id)
			continue
		}
		known++
		require.Contains(t, p.users, u)
		require.Equal(t, sums{u.live, u.required, u.has, u.lingers, u.part, u.top - u.base},
			sums{s.live, s.required, s.has, s.lingers, s.surplus, min(p.total, s.most)}, "user %d", u.id)
		given += s.surplus
		if u.part == u.top-u.base {
			continue
		}
		for _, other := range p.users {
			require.True(t, other.part == 0 || other.lingers+other.part <= u.lingers+u.part+1,
				"user %d has %d and %d linger, user %d could use more than %d and %d", other.id, other.part,
				other.lingers, u.id, u.part, u.lingers)
		}
	}
	require.Len(t, p.users, known)
	require.Len(t, p.usersByID, known)
	require.EqualValues(t, known, p.bases.count)
	require.EqualValues(t, known, p.tops.count)
	// What is beyond what is kept is handed out, and of that no more than half.
	n := p.unpromised()
	isAll := !slices.ContainsFunc(p.users, func(u *user) bool { return u.part < u.top-u.base })
	require.True(t, isAll || given >= n-p.kept, "%d given of %d, %d kept", given, n, p.kept)
	require.LessOrEqual(t, given, max(0, n-p.kept)+min(n, p.kept)/2)
}

func createGrantOf(t *testing.T, p *NetworkBufferPool, user uint32, required, most int) (*Grant, *recorder) {
	r := &recorder{}
	g, err := p.CreateGrant(GrantSpec{Required: required, Max: most, User: user}, r)
	require.NoError(t, err)
	return g, r
}

func TestSurplusIsSharedAmongUsersBeforeGrants(t *testing.T) {
	type spec struct {
		user           uint32
		required, most int
	}
	for _, row := range []struct {
		name  string
		total int
		specs []spec
		sizes []int
	}{
		{"one grant beside three", 1024, []spec{{1, 1, Unlimited}, {2, 1, Unlimited}, {2, 1, Unlimited},
			{2, 1, Unlimited}}, []int{511, 171, 171, 171}},
		{"who wants less gets it", 1024, []spec{{1, 1, 11}, {2, 1, Unlimited}, {3, 1, Unlimited}}, []int{11, 507, 506}},
		{"one by one", 100, []spec{{1, 1, 6}, {2, 1, 21}, {3, 1, 41}, {4, 1, 101}}, []int{6, 21, 37, 36}},
		{"many small ones want more than a share", 60, []spec{{1, 2, 12}, {1, 2, 12}, {1, 2, 12}, {2, 14, 30}},
			[]int{10, 10, 10, 30}},
		{"in proportion within a user", 46, []spec{{1, 1, 31}, {1, 1, 16}, {2, 1, 101}, {3, 1, 2}},
			[]int{14, 9, 21, 2}},
		{"required segments are no surplus", 100, []spec{{1, 60, 100}, {2, 1, 100}, {3, 1, 1}}, []int{79, 20, 1}},
		{"only fixed ones", 10, []spec{{1, 3, 3}, {2, 4, 4}}, []int{3, 4}},
		{"less than a segment for each", 5, []spec{{1, 1, 9}, {2, 1, 9}, {3, 1, 9}}, []int{2, 2, 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newNetwork(t, row.total)
			var grants []*Grant
			for _, s := range row.specs {
				g, _ := createGrantOf(t, p, s.user, s.required, s.most)
				grants = append(grants, g)
				requireNetworkInvariants(t, p, grants)
			}
			var sizes []int
			for _, g := range grants {
				sizes = append(sizes, g.Size())
			}
			require.Equal(t, row.sizes, sizes)
		})
	}
}

// Ended partitions that nobody reads are memory that others do not have.
func TestWhatEndedGrantsOfAUserHoldIsOfHisShare(t *testing.T) {
	p := newNetwork(t, 30)
	ended, _ := createGrantOf(t, p, 1, 1, Unlimited)
	require.Equal(t, 15, ended.Request(15))
	ended.Destroy()
	hoarder, _ := createGrantOf(t, p, 1, 1, Unlimited)
	require.Equal(t, 15, hoarder.Size(), "all that is there, as nobody else wants it")
	other, _ := createGrantOf(t, p, 2, 1, Unlimited)
	require.Equal(t, []int{1, 14}, []int{hoarder.Size(), other.Size()})
	require.NoError(t, ended.Recycle(10))
	require.Equal(t, []int{10, 15}, []int{hoarder.Size(), other.Size()}, "5 linger")
	require.NoError(t, ended.Recycle(5))
	require.Equal(t, []int{15, 15}, []int{hoarder.Size(), other.Size()})
	requireNetworkInvariants(t, p, []*Grant{ended, hoarder, other})
}

func TestSegmentsThatComeBackGoToTheUserWhoHasLeast(t *testing.T) {
	p := newNetwork(t, 60)
	holder, _ := createGrantOf(t, p, 1, 1, Unlimited)
	require.Equal(t, 58, holder.Request(58))
	rich, richHears := createGrantOf(t, p, 2, 1, Unlimited)
	poor, poorHears := createGrantOf(t, p, 3, 1, 4)
	require.Equal(t, 1, rich.Request(10))
	require.Equal(t, 1, poor.Request(4))
	require.NoError(t, holder.Recycle(6))
	require.Equal(t, []int{7, 1}, []int{rich.Held(), poor.Held()},
		"first come, first served of those who have the same")
	require.Equal(t, []int{6}, richHears.granted)
	require.NoError(t, holder.Recycle(2))
	require.Equal(t, []int{7, 3}, []int{rich.Held(), poor.Held()})
	require.NoError(t, holder.Recycle(2))
	require.Equal(t, []int{8, 4}, []int{rich.Held(), poor.Held()})
	require.Equal(t, []int{2, 1}, poorHears.granted)
	requireNetworkInvariants(t, p, []*Grant{holder, rich, poor})
}

// With many grants listeners hear later, but a user that comes is told at once what is
// its share, however many others there are.
func TestShareOfAUserIsRightWhenItIsAskedFor(t *testing.T) {
	const users, total = 4000, 400_000
	p := newNetwork(t, total)
	hears := &recorder{}
	var first *Grant
	for i := range users {
		for range 1 + i%3 {
			g, err := p.CreateGrant(GrantSpec{Required: 1, Max: 100_000, User: uint32(i)}, hears)
			require.NoError(t, err)
			if first == nil {
				first = g
			}
			if i%3 == 0 {
				share := float64(total-len(p.grants)) / float64(i+1)
				require.InDelta(t, 1+min(share, 99_999), g.Size(), 1)
				require.InDelta(t, 1+min(share, 99_999), first.Size(), 1)
			}
		}
	}
	p.Settle()
	require.InDelta(t, 1+float64(total-len(p.grants))/users, first.Size(), 1)
	sizes := 0
	for _, g := range p.grants {
		sizes += g.Size()
	}
	require.Equal(t, total, sizes)
	require.Equal(t, 1+98+1, first.Size(), "with the one that is left of the division")
	p.grants[len(p.grants)-1].Reclaim()
	require.NotZero(t, p.changes)
	require.Equal(t, 1+98+1, first.Size(), "it stays with who has it")
}
