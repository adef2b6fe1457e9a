package pool

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSurplusIsSharedInProportionToWhatCanBeUsed(t *testing.T) {
	for _, row := range []struct {
		name  string
		total int
		specs []GrantSpec
		sizes []int
	}{
		{"bounded below the budget", 1024, []GrantSpec{{Required: 1, Max: 10}, {Required: 1, Max: 10}}, []int{10, 10}},
		{"one without bound", 1024, []GrantSpec{{Required: 1, Max: Unlimited}}, []int{1024}},
		{"two without bound", 1024, []GrantSpec{{Required: 1, Max: Unlimited}, {Required: 1, Max: Unlimited}},
			[]int{512, 512}},
		{"two without bound that require all", 1024, []GrantSpec{{Required: 512, Max: Unlimited},
			{Required: 512, Max: Unlimited}}, []int{512, 512}},
		{"fixed beside unlimited", 1024, []GrantSpec{{Required: 24, Max: 24}, {Required: 1, Max: Unlimited}},
			[]int{24, 1000}},
		{"fixed beside bounded", 1024, []GrantSpec{{Required: 1, Max: 1}, {Required: 1, Max: 2}}, []int{1, 2}},
		{"only fixed ones", 1024, []GrantSpec{{Required: 3, Max: 3}, {Required: 4, Max: 4}}, []int{3, 4}},
		{"alone with all of a small budget", 3, []GrantSpec{{Required: 1, Max: 10}}, []int{3}},
		{"odd segment stays with the earlier one", 3, []GrantSpec{{Required: 1, Max: 10}, {Required: 1, Max: 10}},
			[]int{2, 1}},
		{"only what is required is there", 3, []GrantSpec{{Required: 1, Max: 10}, {Required: 1, Max: 10},
			{Required: 1, Max: 10}}, []int{1, 1, 1}},
		{"unbounded weighs the whole surplus", 33, []GrantSpec{{Required: 1, Max: 11}, {Required: 1, Max: Unlimited},
			{Required: 1, Max: 1}}, []int{9, 23, 1}},
		{"more than was there", 1024, []GrantSpec{{Required: 511, Max: 1024}, {Required: 513, Max: 1024}},
			[]int{511, 513}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newNetwork(t, row.total)
			var grants []*Grant
			for _, spec := range row.specs {
				g, _ := createGrant(t, p, spec.Required, spec.Max)
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

// The grants in the middle stand for segments that are promised to others and
// returned again.
func TestSizesFollowEveryPromiseAndItsReturn(t *testing.T) {
	p := newNetwork(t, 10)
	first, hears := createGrant(t, p, 1, 10)
	require.Equal(t, 10, first.Size())
	promises := make([]*Grant, 3)
	promises[0], _ = createGrant(t, p, 2, 2)
	require.Equal(t, 8, first.Size())
	second, _ := createGrant(t, p, 1, 10)
	sizes := func() []int { return []int{first.Size(), second.Size()} }
	require.Equal(t, []int{4, 4}, sizes())
	promises[1], _ = createGrant(t, p, 2, 2)
	require.Equal(t, []int{3, 3}, sizes())
	promises[2], _ = createGrant(t, p, 2, 2)
	require.Equal(t, []int{2, 2}, sizes())
	require.Equal(t, 4, hears.resized)

	for i, want := range [][]int{{3, 3}, {4, 4}, {5, 5}} {
		promises[i].Destroy()
		require.Equal(t, want, sizes())
	}
	first.Destroy()
	require.Equal(t, 10, second.Size())
}

func TestSizesDoNotChangeOverAndOver(t *testing.T) {
	p := newNetwork(t, 100)
	bounded, hears := createGrant(t, p, 1, 10)
	for range 5 {
		g, _ := createGrant(t, p, 1, 10)
		g.Destroy()
	}
	require.Equal(t, 10, bounded.Size())
	require.Zero(t, hears.resized, "an equal size is not announced")
}

func TestDestroyingOneOfTwoUnboundedGrantsGivesTheOtherEverything(t *testing.T) {
	p := newNetwork(t, 1024)
	first, _ := createGrant(t, p, 1, Unlimited)
	second, hears := createGrant(t, p, 1, Unlimited)
	require.Equal(t, 512, second.Size())
	first.Destroy()
	require.Equal(t, 1024, second.Size())
	require.Equal(t, 1, hears.resized)
}

func TestRandomGrantsGetEverythingTheyCanUse(t *testing.T) {
	random := newRandom(t)
	for range 1000 {
		p := newNetwork(t, 1024)
		var grants []*Grant
		var most, surplusUse int
		for range 32 {
			required := 1 + random.IntN(32)
			g, _ := createGrant(t, p, required, required+random.IntN(100))
			grants = append(grants, g)
			most += g.spec.Max
		}
		surplus := 1024 - p.Stats().Required
		for _, g := range grants {
			surplusUse += min(surplus, g.spec.Max-g.spec.Required)
		}
		sizes := 0
		for _, g := range grants {
			sizes += g.Size()
			exact := float64(g.spec.Required)
			if surplusUse > 0 {
				exact += float64(min(surplus, surplusUse)) * float64(min(surplus,
					g.spec.Max-g.spec.Required)) / float64(surplusUse)
			}
			require.True(t, math.Abs(exact-float64(g.Size())) < 1, "size %d, in proportion %v", g.Size(), exact)
		}
		require.Equal(t, min(1024, most), sizes)
		requireNetworkInvariants(t, p, grants)
	}
}

func TestLargestBudgetIsSharedWithoutOverflow(t *testing.T) {
	p := newNetwork(t, math.MaxInt32)
	var grants []*Grant
	for range 64 {
		g, _ := createGrant(t, p, 1, Unlimited)
		grants = append(grants, g)
	}
	require.Equal(t, 1<<25, grants[0].Size())
	require.Equal(t, 1<<25-1, grants[63].Size())
	requireNetworkInvariants(t, p, grants)

	for _, row := range [][5]uint64{
		{math.MaxUint64 - 1, math.MaxUint64, math.MaxUint64, math.MaxUint64 - 1, 0},
		{1 << 62, 1 << 62, 1 << 63, 1 << 61, 0},
		{1<<62 + 1, 1 << 62, 1 << 63, 1 << 61, 1 << 62},
		{1, 1, 0, 0, 0},
	} {
		quotient, rest := mulDiv(row[0], row[1], row[2])
		require.Equal(t, row[3:], []uint64{quotient, rest}, "%d * %d / %d", row[0], row[1], row[2])
	}
}

// Each of a thousand partitions would have to be told of a change by one.
func TestGrantThatComesChangesFewOthers(t *testing.T) {
	p := newNetwork(t, 5000)
	heard := 0
	var all []*recorder
	for range 1000 {
		_, hears := createGrant(t, p, 1, 100)
		all = append(all, hears)
	}
	for _, hears := range all {
		heard += hears.resized
	}
	require.Less(t, heard, 20_000, "the sizes shrink from 100 to 5, half of a step at a time on average")
}

// Many grants that come and go cost a look at each of them a few times, not their
// number squared.
func TestManyGrantsCostTheirNumberAndNotItsSquare(t *testing.T) {
	const grants = 20_000
	for _, row := range []struct {
		name  string
		total int
		users uint32
	}{
		{"much memory", 1 << 24, 1},
		{"hardly more than is required", 2*grants + 10, 1},
		{"many users", 1 << 24, 10_000},
		{"many users and less than they can use", 8 * grants, 10_000},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newNetwork(t, row.total)
			hears := &recorder{}
			all := make([]*Grant, grants)
			for i := range all {
				var err error
				all[i], err = p.CreateGrant(GrantSpec{Required: 2, Max: 16, User: uint32(i) % row.users}, hears)
				require.NoError(t, err)
			}
			require.Less(t, p.steps, 100*grants)
			require.Less(t, hears.resized, 50*grants)
			for _, g := range all {
				require.Equal(t, 2, g.Request(2))
			}
			for range grants { // a few that come and go
				all[0].Reclaim()
				var err error
				all[0], err = p.CreateGrant(GrantSpec{Required: 2, Max: 16}, hears)
				require.NoError(t, err)
			}
			require.Less(t, p.steps, 100*grants)
			p.steps, hears.resized = 0, 0
			for _, g := range all {
				g.Reclaim()
			}
			require.Less(t, p.steps, 100*grants)
			require.Less(t, hears.resized, 50*grants)
			require.Equal(t, NetworkStats{Total: row.total, Available: row.total}, p.Stats())
			p.Settle()
			require.Empty(t, p.users)
		})
	}
}

// With many grants listeners hear later of their sizes, but who asks is told the right
// one.
func TestSizeIsRightWhenItIsAskedFor(t *testing.T) {
	const grants, total = 4000, 400_000
	p := newNetwork(t, total)
	var all []*Grant
	var told []*recorder
	for i := range grants {
		g, hears := createGrant(t, p, 1, 1000)
		all, told = append(all, g), append(told, hears)
		require.InDelta(t, min(1000, float64(total)/float64(i+1)), g.Size(), 1)
		require.InDelta(t, min(1000, float64(total)/float64(i+1)), all[0].Size(), 1)
	}
	p.Settle()
	before := told[1].resized
	for _, g := range all[grants-100:] {
		g.Reclaim()
	}
	require.Equal(t, before, told[1].resized)
	require.Equal(t, 102, all[1].Size())
	require.Equal(t, 102, all[1].Request(102))
	p.Settle()
	require.Equal(t, before+1, told[1].resized)
	require.Equal(t, 103, all[1].Size(), "first come, first given of what is left")
	sizes := 0
	for _, g := range all[:grants-100] {
		sizes += g.Size()
	}
	require.Equal(t, total, sizes)
}

// Those who have their size are not looked at when a segment comes back.
func TestReturnedSegmentCostsByWhoGetsIt(t *testing.T) {
	const waiters = 2000
	p := newNetwork(t, 3*waiters)
	holder, _ := createGrant(t, p, waiters, waiters)
	require.Equal(t, waiters, holder.Request(waiters))
	for range waiters {
		createGrant(t, p, 2, 10)
	}
	p.Settle()
	for _, g := range p.grants[1:] {
		require.Equal(t, 2, g.Request(10))
	}
	require.Empty(t, p.waiting.users, "nobody may have more")
	last := p.grants[waiters]
	require.Equal(t, 8, last.wish)
	require.NoError(t, holder.Recycle(waiters))
	require.Empty(t, p.waiting.users)
	holder.Destroy()
	p.Settle()
	require.Equal(t, 3, last.Held(), "all have grown by one")
	require.Empty(t, p.waiting.users)
	require.Zero(t, p.Stats().Available)
}

func BenchmarkCreateAndDestroyGrants(b *testing.B) {
	const grants = 100_000
	for _, users := range []uint32{1, 10_000} {
		b.Run(fmt.Sprintf("%d users", users), func(b *testing.B) {
			hears := &recorder{}
			for b.Loop() {
				p, err := NewNetworkBufferPool(1<<22, DefaultSegmentSize)
				require.NoError(b, err)
				all := make([]*Grant, grants)
				for i := range all {
					if all[i], err = p.CreateGrant(GrantSpec{Required: 5, Max: 16 + i%100, User: uint32(i) % users},
						hears); err != nil {
						b.Fatal(err)
					}
				}
				for _, g := range all {
					g.Reclaim()
				}
			}
		})
	}
}
