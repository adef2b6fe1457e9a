package pool

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A modelGrant is what the model knows of a grant, and the listener of the real
// one.
type modelGrant struct {
	grant *Grant
	spec  GrantSpec
	size  int // as told by SizeChanged
	held  int
	wish  int
	later int // served after it had waited
	told  int // by Granted
	ended bool

	queued   bool // waits to be admitted
	claims   bool // and has a claim to what comes back
	floor    int  // beyond so much
	admitted int  // calls of it
}

func (m *modelGrant) SizeChanged()  { m.size = m.grant.Size() }
func (m *modelGrant) Granted(n int) { m.told += n }

// TestRandomOperationsOnTheBudget compares a NetworkBufferPool with a model that
// keeps a list of waiting grants and looks at all of it after every operation.
func TestRandomOperationsOnTheBudget(t *testing.T) {
	random := newRandom(t)
	for range 20 {
		runBudgetAgainstModel(t, random, 1+random.IntN(60), 300)
	}
}

func runBudgetAgainstModel(t *testing.T, random *rand.Rand, total, operations int) {
	p := newNetwork(t, total)
	var all, waiting, queue []*modelGrant
	free := total
	kept := random.IntN(total/2+1) * random.IntN(2)
	p.SetKept(kept)
	users := uint32(1 + random.IntN(4))

	sum := func(of func(m *modelGrant) int) (n int) {
		for _, m := range all {
			n += of(m)
		}
		return n
	}
	lacking := func(m *modelGrant) int {
		if m.ended || m.queued {
			return 0
		}
		return max(0, m.spec.Required-m.held)
	}
	// has is what the grants of m's user hold and lack of what they require.
	has := func(m *modelGrant) int {
		return sum(func(other *modelGrant) int {
			if other.spec.User != m.spec.User {
				return 0
			}
			return other.held + lacking(other)
		})
	}
	// keptFrom is what has to be left when m is admitted.
	keptFrom := func(m *modelGrant) int {
		required := sum(func(other *modelGrant) int {
			if other.spec.User != m.spec.User || other.ended || other.queued {
				return 0
			}
			return other.spec.Required
		})
		switch {
		case m.spec.MayUseKept || has(m)+m.spec.Required <= kept/2:
			return 0
		case required+m.spec.Required <= kept/2:
			return kept - kept/2
		}
		return kept
	}
	// beyondClaims is what is left of n for who may have all of it.
	beyondClaims := func(n int) int {
		for _, floor := range []int{0, kept - kept/2, kept} {
			n -= max(0, min(n-floor, sum(func(m *modelGrant) int {
				if !m.claims || m.floor != floor {
					return 0
				}
				return m.spec.Required
			})))
			if kept == 0 {
				break // they are one
			}
		}
		return max(0, n)
	}
	lendable := func() int { return beyondClaims(free - sum(lacking)) }
	give := func(m *modelGrant, n int) {
		free -= n
		m.held += n
		m.later += n
		m.wish -= n
	}
	giveRequired := func() {
		for _, m := range waiting {
			give(m, min(m.wish, lacking(m)))
		}
	}
	// admit lets those in for whom there is enough, as they come, and settles who of the
	// others has a claim. Who asks for segments takes none of that.
	admit := func() {
		giveRequired()
		for _, m := range queue {
			m.claims = false
		}
		for _, m := range queue {
			promised := sum(func(m *modelGrant) int {
				if m.queued {
					return 0
				}
				if m.ended {
					return m.held
				}
				return m.spec.Required
			})
			m.floor = keptFrom(m)
			if m.spec.Required+m.floor <= lendable() {
				m.queued = false
			} else {
				m.claims = m.spec.Required+m.floor <= beyondClaims(total-promised)
			}
		}
		queue = slices.DeleteFunc(queue, func(m *modelGrant) bool { return !m.queued })
	}
	// serve gives grants what they require, and then what is free to those who wait:
	// those of the user who has least first, and as they came. It is free beyond what
	// others lack of what they require, what is claimed by those who are not in yet, and
	// what is kept; of that, as much as would leave what the user has, up to half.
	serve := func() {
		giveRequired()
		for {
			var first *modelGrant
			for _, m := range waiting {
				if m.wish > 0 && m.held < m.size && (first == nil || has(m) < has(first)) {
					first = m
				}
			}
			if first == nil {
				break
			}
			n := max(lendable()-kept, min(kept/2-has(first), (lendable()-has(first))/2))
			if n <= 0 {
				break
			}
			give(first, min(n, first.wish, first.size-first.held))
		}
		waiting = slices.DeleteFunc(waiting, func(m *modelGrant) bool { return m.wish == 0 })
	}
	end := func(m *modelGrant) {
		m.ended, m.queued, m.claims, m.wish = true, false, false, 0
		isM := func(other *modelGrant) bool { return other == m }
		waiting = slices.DeleteFunc(waiting, isM)
		queue = slices.DeleteFunc(queue, isM)
	}
	// Sizes are the pool's own, as their rule is checked elsewhere; the listener
	// has to have told of each change.
	check := func() {
		t.Helper()
		p.Settle()
		var grants []*Grant
		for _, m := range all {
			grants = append(grants, m.grant)
			if !m.ended {
				require.True(t, m.grant.Size() == m.size, "every change is announced")
			}
		}
		requireNetworkInvariants(t, p, grants)
		serve()
		for _, m := range all {
			require.True(t, m.held == m.grant.Held() && m.wish == m.grant.wish && m.later == m.told,
				"model %+v, grant %+v", m, m.grant)
			require.Equal(t, m.queued, m.grant.admission != nil)
			require.True(t, m.ended || (m.admitted == 1) != (m.queued || m.grant.admittedAtOnce),
				"is told once, if it had to wait")
		}
		require.Equal(t, free, p.Stats().Available)
		require.Equal(t, len(queue), p.Stats().Waiting)
	}

	for range operations {
		if len(all) == 0 || random.IntN(8) == 0 {
			required := 1 + random.IntN(max(1, total/4))
			m := &modelGrant{spec: GrantSpec{
				Required: required, Max: required + random.IntN(total), User: random.Uint32N(users),
				MayUseKept: random.IntN(8) == 0,
			}}
			if random.IntN(4) == 0 {
				m.spec.Max = Unlimited
			}
			enough := required <= lendable()-keptFrom(m)
			var err error
			if random.IntN(2) == 0 {
				m.grant, err = p.CreateGrant(m.spec, m)
				require.Equal(t, enough, err == nil)
			} else {
				m.grant, m.queued, err = p.QueueGrant(m.spec, m, func(*Grant) { m.admitted++ })
				require.NoError(t, err)
				require.Equal(t, enough, !m.queued)
			}
			if err != nil {
				require.ErrorIs(t, err, ErrInsufficientBuffers)
			} else {
				m.size = m.grant.Size()
				all = append(all, m)
			}
			if m.queued {
				queue = append(queue, m)
			}
			if err == nil {
				admit()
			}
			check()
			continue
		}
		m := all[random.IntN(len(all))]
		switch n := random.IntN(20); {
		case n < 9:
			wanted := random.IntN(6)
			if !m.ended && !m.queued {
				if m.wish == 0 {
					waiting = append(waiting, m)
				}
				m.wish = min(m.wish+wanted, max(m.wish, min(m.spec.Max, total)-m.held))
			}
			before := m.held
			serve()
			require.Equal(t, m.held-before, m.grant.Request(wanted))
			m.later -= m.held - before
		case n < 16:
			back := random.IntN(m.held + 1)
			require.NoError(t, m.grant.Recycle(back))
			m.held -= back
			free += back
			if back > 0 {
				admit()
			}
		case n < 17:
			require.ErrorIs(t, m.grant.Recycle(m.held+1+random.IntN(3)), ErrUnknownSegment)
		case n < 18:
			if err := m.grant.GiveUp(); m.queued {
				require.ErrorIs(t, err, ErrInsufficientBuffers)
			} else {
				require.NoError(t, err)
				m.grant.Destroy()
			}
			end(m)
			admit()
		default:
			m.grant.Reclaim()
			free += m.held
			m.held = 0
			end(m)
			admit()
		}
		check()
		all = slices.DeleteFunc(all, func(m *modelGrant) bool { return m.ended && m.held == 0 })
	}
	for _, m := range all {
		m.grant.Destroy()
	}
	for _, m := range all {
		require.NoError(t, m.grant.Recycle(m.grant.Held()))
	}
	require.Equal(t, NetworkStats{Total: total, Available: total}, p.Stats())
}

// A modelSource owns the segments of a region. It delivers what it is asked for in
// parts, at once or later.
type modelSource struct {
	random   *rand.Rand
	pool     *LocalBufferPool
	atSource []int
	owed     int
	free     []int // the free list that the pool should have
	ended    bool
}

func (s *modelSource) Attach(p *LocalBufferPool) { s.pool = p }

func (s *modelSource) take(n int) []int {
	segments := slices.Clone(s.atSource[:n])
	s.atSource = s.atSource[n:]
	s.free = append(s.free, segments...)
	return segments
}

func (s *modelSource) Request(n int) []int {
	now := s.random.IntN(n + 1)
	s.owed += n - now
	return s.take(now)
}

func (s *modelSource) Recycle(segments []int) {
	s.atSource = append(s.atSource, segments...)
	s.random.Shuffle(len(s.atSource), func(i, j int) {
		s.atSource[i], s.atSource[j] = s.atSource[j], s.atSource[i]
	})
	s.free = s.free[len(segments):]
}

func (s *modelSource) Destroy() { s.ended = true }

// TestRandomOperationsOnALocalPool compares a LocalBufferPool with a list of free
// segments, a count for each channel and waiters that must be woken exactly when
// there is something for them.
func TestRandomOperationsOnALocalPool(t *testing.T) {
	random := newRandom(t)
	for range 40 {
		runLocalPoolAgainstModel(t, random, 300)
	}
}

func runLocalPoolAgainstModel(t *testing.T, random *rand.Rand, operations int) {
	required := 1 + random.IntN(5)
	config := LocalConfig{
		Required:             required,
		Max:                  required + random.IntN(40),
		Subpartitions:        random.IntN(5),
		MaxBuffersPerChannel: random.IntN(6),
		RequestBatch:         random.IntN(9),
	}
	s := &modelSource{random: random, atSource: random.Perm(config.Max)}
	p := newLocal(t, config, s)
	type loan struct{ segment, channel int }
	var loans []loan
	channels := make([]int, config.Subpartitions)
	size := required
	var available, free <-chan struct{}

	check := func() {
		t.Helper()
		requireLocalInvariants(t, p)
		answer := p.Available() // which may fetch
		require.Equal(t, [4]int{len(s.free), len(loans), config.Max - len(s.atSource), size},
			[4]int{p.Free(), p.Used(), p.Requested(), p.Size()})
		isAvailable := s.ended || len(s.free) > 0 &&
			(config.MaxBuffersPerChannel == 0 || !slices.ContainsFunc(channels,
				func(n int) bool { return n >= config.MaxBuffersPerChannel }))
		require.Equal(t, isAvailable, answer)
		// The pool is looked at after every operation, and none both makes it
		// available and unavailable again, so no wake-up can be missed here.
		for _, row := range []struct {
			waiting *<-chan struct{}
			wait    func() <-chan struct{}
			holds   bool
		}{
			{&available, p.Availability, isAvailable},
			{&free, p.FreeSegment, s.ended || len(s.free) > 0},
		} {
			if *row.waiting == nil {
				*row.waiting = row.wait()
			}
			require.Equal(t, row.holds, isClosed(*row.waiting))
			if row.holds {
				*row.waiting = nil
			}
		}
	}
	back := func(i int) {
		l := loans[i]
		loans = slices.Delete(loans, i, i+1)
		if l.channel != NoChannel {
			channels[l.channel]--
		}
		s.free = append(s.free, l.segment)
		p.Recycle(l.segment, l.channel)
	}

	check()
	for range operations {
		switch random.IntN(11) {
		case 0, 1, 2, 3:
			channel := random.IntN(config.Subpartitions+1) - 1
			expected := -1
			take := func() {
				if expected < 0 && len(s.free) > 0 {
					expected, s.free = s.free[0], s.free[1:]
				}
			}
			take()
			segment, ok, err := p.TryRequest(channel)
			take() // what the source had at once
			require.NoError(t, err)
			require.Equal(t, expected >= 0, ok)
			if ok {
				require.Equal(t, expected, segment)
				loans = append(loans, loan{segment, channel})
				if channel != NoChannel {
					channels[channel]++
				}
			}
		case 4, 5, 6:
			if len(loans) > 0 {
				back(random.IntN(len(loans)))
			}
		case 7, 8:
			n := min(random.IntN(s.owed+1), len(s.atSource))
			s.owed -= n
			require.NoError(t, p.Granted(s.take(n)))
		case 10:
			p.GiveBackIdle()
		case 9:
			n := required + random.IntN(config.Max-required+3)
			size = min(n, config.Max)
			require.NoError(t, p.SetNumBuffers(n))
		}
		check()
	}
	p.LazyDestroy()
	require.True(t, s.ended)
	check()
	for len(loans) > 0 {
		back(random.IntN(len(loans)))
		check()
	}
	require.NoError(t, p.Granted(s.take(min(s.owed, len(s.atSource)))))
	check()
	slices.Sort(s.atSource)
	for i, segment := range s.atSource {
		require.Equal(t, i, segment, "every segment is back at the source once")
	}
}
