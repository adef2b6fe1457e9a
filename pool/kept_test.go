package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// hoard returns a pool of 128 segments, 16 of them kept, and a grant of user 1 that
// holds all others and requires one.
func hoard(t *testing.T) (*NetworkBufferPool, *Grant) {
	p := newNetwork(t, 128)
	p.SetKept(16)
	hoarder, _ := createGrantOf(t, p, 1, 1, Unlimited)
	require.Equal(t, 112, hoarder.Size())
	require.Equal(t, 112, hoarder.Request(128))
	return p, hoarder
}

func TestKeptSegmentsAreForThoseWhoHaveLittle(t *testing.T) {
	p, hoarder := hoard(t)
	_, err := p.CreateGrant(GrantSpec{Required: 9, Max: 9, User: 1}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
	require.ErrorContains(t, err, "required 9, but only 0 available")
	require.ErrorContains(t, err, "the last 16 are kept for users that have little")
	_, err = p.CreateGrant(GrantSpec{Required: 9, Max: 9, User: 2}, &recorder{})
	require.ErrorContains(t, err, "the last 16 are kept for users that have little", "so much is not little")
	modest, _ := createGrantOf(t, p, 2, 8, 8)
	require.Equal(t, 8, modest.Request(8), "what it requires")
	_, err = p.CreateGrant(GrantSpec{Required: 1, Max: 1, User: 2}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
	privileged, err := p.CreateGrant(GrantSpec{Required: 8, Max: 8, User: 2, MayUseKept: true}, &recorder{})
	require.NoError(t, err)

	require.Equal(t, 96, hoarder.Size(), "what others require is no surplus")
	privileged.Reclaim()
	modest.Reclaim()
	require.NoError(t, hoarder.Recycle(112))
	hoarder.Request(128)
	require.Equal(t, 112, hoarder.Held())
	require.Equal(t, 16, p.Stats().Available)
	requireNetworkInvariants(t, p, []*Grant{hoarder})
}

func TestUserWhoHasMuchLeavesHalfOfWhatIsKeptEvenIfHeRequiresLittle(t *testing.T) {
	p, hoarder := hoard(t)
	second, _ := createGrantOf(t, p, 1, 7, 7)
	_, err := p.CreateGrant(GrantSpec{Required: 1, Max: 1, User: 1}, &recorder{})
	require.ErrorContains(t, err, "the last 16 are kept for users that have little",
		"it requires more than little with it")
	other, _ := createGrantOf(t, p, 2, 1, 20)
	require.Equal(t, 4, other.Request(20), "of 8, as much as is left")
	second.Reclaim()
	_, err = p.CreateGrant(GrantSpec{Required: 5, Max: 5, User: 1}, &recorder{})
	require.ErrorContains(t, err, "required 5, but only 0 available")
	require.ErrorContains(t, err, "the last 8 are kept for users that have little")
	third, _ := createGrantOf(t, p, 3, 8, 8)
	require.Equal(t, 8, third.Request(8))
	requireNetworkInvariants(t, p, []*Grant{hoarder, second, other, third})
}

// A hoarder gives nothing back, but those who come later can work.
func TestUserWhoComesLaterIsLentOfWhatIsKept(t *testing.T) {
	p, hoarder := hoard(t)
	second, _ := createGrantOf(t, p, 2, 2, 20)
	require.Equal(t, 20, second.Size())
	require.Equal(t, 8, second.Request(20), "as much as is little")
	third, _ := createGrantOf(t, p, 3, 2, 20)
	require.Equal(t, 4, third.Request(20), "as much as is left")
	fourth, _ := createGrantOf(t, p, 4, 1, 20)
	require.Equal(t, 2, fourth.Request(20))
	fifth, _ := createGrantOf(t, p, 5, 2, 2)
	all := []*Grant{hoarder, second, third, fourth, fifth}
	requireNetworkInvariants(t, p, all)
	require.Equal(t, 2, fifth.Request(2), "what is required is there")
	require.Zero(t, p.Stats().Available)

	held := func() (n []int) {
		for _, g := range all[1:] {
			n = append(n, g.Held())
		}
		return n
	}
	require.NoError(t, hoarder.Recycle(10))
	requireNetworkInvariants(t, p, all)
	require.Equal(t, []int{8, 5, 6, 2}, held(), "those who have least first")
	require.Equal(t, 5, p.Stats().Available)
	require.NoError(t, hoarder.Recycle(101))
	requireNetworkInvariants(t, p, all)
	require.Equal(t, []int{20, 20, 20, 2}, held())
}

func TestManyWhoComeLaterLeaveSomethingForAnotherOne(t *testing.T) {
	p := newNetwork(t, 1<<20)
	p.SetKept(1 << 17)
	hoarder, _ := createGrantOf(t, p, 1, 1, Unlimited)
	require.Equal(t, 7<<17, hoarder.Request(Unlimited))
	left := 1 << 17
	for user := range uint32(10) {
		g, _ := createGrantOf(t, p, 2+user, 1, Unlimited)
		require.InDelta(t, left/2, g.Request(Unlimited), 1)
		left = p.Stats().Available
	}
	require.Equal(t, 128, left)
}

func TestUserIsLentNoMoreThanLittleInAll(t *testing.T) {
	p, hoarder := hoard(t)
	var mine []*Grant
	for range 3 {
		g, _ := createGrantOf(t, p, 2, 2, 20)
		mine = append(mine, g)
	}
	require.Equal(t, 4, mine[0].Request(20), "the others require four")
	require.Zero(t, mine[0].Request(1))
	mine[1].Reclaim()
	requireNetworkInvariants(t, p, append(mine, hoarder))
	require.Equal(t, 6, mine[0].Held())
	require.Equal(t, 2, mine[2].Request(2))
	_, err := p.CreateGrant(GrantSpec{Required: 1, Max: 1, User: 2}, &recorder{})
	require.ErrorContains(t, err, "required 1, but only 0 available", "the other half is for others")
}

// Partitions that require all but what is kept leave no surplus, and so no sizes, but
// for this.
func TestHalfOfWhatIsKeptIsSharedWhereNoSurplusIsLeft(t *testing.T) {
	p := newNetwork(t, 128)
	p.SetKept(16)
	greedy, _ := createGrantOf(t, p, 1, 112, Unlimited)
	require.Equal(t, 112+8, greedy.Size(), "nobody else is there")
	require.Equal(t, 112, greedy.Request(Unlimited), "but it has much")
	second, _ := createGrantOf(t, p, 2, 1, 3)
	third, _ := createGrantOf(t, p, 3, 1, 50)
	all := []*Grant{greedy, second, third}
	requireNetworkInvariants(t, p, all)
	require.Equal(t, []int{115, 3, 3}, []int{greedy.Size(), second.Size(), third.Size()}, "7 of the 14 that are left")
	require.Equal(t, 3, second.Request(50))
	require.Equal(t, 3, third.Request(50))
	requireNetworkInvariants(t, p, all)
}

func TestGrantThatWaitsDoesNotGetWhatIsKept(t *testing.T) {
	p := newNetwork(t, 8)
	p.SetKept(2)
	first, err := p.CreateGrant(GrantSpec{Required: 1, Max: Unlimited}, &recorder{})
	require.NoError(t, err)
	require.Equal(t, 6, first.Request(8))
	isIn := false
	second, waits, err := p.QueueGrant(GrantSpec{Required: 2, Max: 2}, &recorder{}, func(*Grant) { isIn = true })
	require.NoError(t, err)
	require.True(t, waits)
	require.Equal(t, 4, first.Size(), "the rest is the other's")
	require.NoError(t, first.Recycle(1))
	require.False(t, isIn)
	require.NoError(t, first.Recycle(1))
	require.True(t, isIn)
	require.Equal(t, 2, second.Request(2))
	require.Equal(t, 2, p.Stats().Available)
	second.Reclaim()
	first.Reclaim()
}

func TestGrantsThatWaitDoNotKeepThoseOutWhoHaveLittle(t *testing.T) {
	p, hoarder := hoard(t)
	all := []*Grant{hoarder}
	for i, required := range []int{7, 7, 7, 20, 20, 20} {
		g, waits, err := p.QueueGrant(GrantSpec{Required: required, Max: required, User: 1}, &recorder{},
			func(*Grant) {})
		require.NoError(t, err)
		require.Equal(t, i > 0, waits, "with the second one it would require more than little")
		all = append(all, g)
	}
	require.Equal(t, 5, p.Stats().Waiting)
	require.Equal(t, 1+128-16-8-74, hoarder.Size(), "what they claim is no surplus")
	other, _ := createGrantOf(t, p, 2, 2, 20)
	require.Equal(t, 4, other.Request(20), "of 9, no more than is left")
	requireNetworkInvariants(t, p, append(all, other))
	require.NoError(t, hoarder.Recycle(30))
	require.Equal(t, 3, p.Stats().Waiting, "whoever came first")
	requireNetworkInvariants(t, p, append(all, other))
	require.Equal(t, 8, other.Held())
}
