package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// A registry is a manager whose hosts and consumers write down what they hear.
type registry struct {
	*ResultPartitionManager
	t   *testing.T
	now time.Time
	mu  sync.Mutex
	log []string
}

func newRegistry(t *testing.T, tombstones int) *registry {
	r := &registry{t: t, now: time.Unix(1000, 0)}
	r.ResultPartitionManager = NewResultPartitionManager(ManagerConfig{
		Refused:   func(f Refusal) { r.note("refused %d to %s %s of %d", f.Who.UID, f.Action, f.Name, f.Owner) },
		Retention: time.Minute, Tombstones: tombstones, TombstonesPerUID: tombstones,
		Now: func() time.Time { return r.now },
	})
	return r
}

func (r *registry) note(format string, args ...any) {
	require.True(r.t, r.announcer.mu.TryLock(), "called with the lock held")
	r.announcer.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// heard returns what was heard since the last call.
func (r *registry) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

// pass lets time go by.
func (r *registry) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.Sweep(r.now)
}

type fakeHost struct {
	registry *registry
	name     string
}

func (h fakeHost) Attach(r *SubpartitionRequest) {
	h.registry.note("%s: attach %s to %d", h.name, r.Consumer().(fakeConsumer).name, r.Subpartition())
}

func (h fakeHost) ConsumerDetached(subpartition int, consumed bool, reason string) {
	h.registry.note("%s: detach %d, consumed %v", h.name, subpartition, consumed)
}
func (h fakeHost) Ended(err error) { h.registry.note("%s: ended, %s", h.name, sentinelName(err)) }
func (h fakeHost) Drop(maps bool)  { h.registry.note("%s: drop, reader maps %v", h.name, maps) }

type fakeConsumer struct {
	registry *registry
	name     string
}

func (c fakeConsumer) Failed(err error)     { c.registry.note("%s: %s", c.name, sentinelName(err)) }
func (c fakeConsumer) Place() (uint64, int) { return 7, 3 }

func sentinelName(err error) string {
	for name, sentinel := range map[string]error{
		"not found": shuffle.ErrPartitionNotFound, "released": shuffle.ErrPartitionReleased,
		"expired": shuffle.ErrPartitionExpired,
		"failed":  shuffle.ErrPartitionFailed, "lost": shuffle.ErrProducerLost, "fenced": shuffle.ErrFenced,
		"already consumed": shuffle.ErrAlreadyConsumed,
		"invalid":          shuffle.ErrInvalidArgument, "closed": shuffle.ErrClosed,
	} {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	return err.Error()
}

var (
	testID  = shuffle.NamedPartitionID("test")
	creator = shuffle.Principal{UID: 1000, GID: 100}
)

func (r *registry) register(name string, spec shuffle.PartitionSpec) *HostedPartition {
	p, err := r.Register(Registration{Spec: spec, Producer: creator, Host: fakeHost{r, name}})
	require.NoError(r.t, err)
	return p
}

// request starts a request for a partition of creator and returns it.
func (r *registry) request(id shuffle.PartitionID, subpartition int, who shuffle.Principal, token string,
	timeout time.Duration, c SubpartitionConsumer) *SubpartitionRequest {
	return r.claim(SubpartitionClaim{Partition: id, Owner: creator.UID, Subpartition: subpartition, Who: who,
		Token: token}, timeout, c)
}

func (r *registry) claim(claim SubpartitionClaim, timeout time.Duration, c SubpartitionConsumer) *SubpartitionRequest {
	q := r.NewRequest(claim, c)
	q.Start(timeout)
	return q
}

func (r *registry) ask(name string, subpartition int) *SubpartitionRequest {
	return r.request(testID, subpartition, creator, "", time.Second, fakeConsumer{r, name})
}

func testSpec(subpartitions int) shuffle.PartitionSpec {
	return shuffle.PartitionSpec{ID: testID, Type: shuffle.PipelinedBounded, Subpartitions: subpartitions}
}

func TestPartitionIsReleasedOnceConsumedAndFinished(t *testing.T) {
	for _, finishFirst := range []bool{true, false} {
		r := newRegistry(t, 10)
		p := r.register("p", testSpec(2))
		require.NoError(t, p.Mapped())
		a, b := r.ask("a", 0), r.ask("b", 1)
		require.Equal(t, []string{"p: attach a to 0", "p: attach b to 1"}, r.heard())
		if finishFirst {
			require.NoError(t, p.Finished())
		}
		a.Close(true)
		a.Close(true) // counted once
		a.ConnectionEnded("again")
		b.Close(true)
		if !finishFirst {
			require.Equal(t, []string{"p: detach 0, consumed true", "p: detach 1, consumed true"}, r.heard())
			require.NoError(t, p.Finished())
			require.Equal(t, []string{"p: ended, released", "p: drop, reader maps false"}, r.heard())
		} else {
			require.Equal(t, []string{
				"p: detach 0, consumed true", "p: detach 1, consumed true", "p: ended, released",
				"p: drop, reader maps false",
			}, r.heard())
		}
		p.ProducerClosed("closed")
		r.ask("late", 0)
		require.Equal(t, []string{"late: released"}, r.heard())
		require.Empty(t, r.Rows())
		<-r.Empty()
	}
}

func TestMemoryOfAnEndedPartitionIsHeldForItsReadersAndItsProducer(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(p *HostedPartition)
		want string
	}{
		"failed":   {func(p *HostedPartition) { require.NoError(t, p.Failed("disk")) }, "failed"},
		"released": {func(p *HostedPartition) { p.Released("by its producer") }, "released"},
		"lost":     {func(p *HostedPartition) { p.ProducerClosed("killed") }, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t, 10)
			p := r.register("p", testSpec(2))
			require.NoError(t, p.Mapped())
			a := r.ask("a", 0)
			r.heard()
			test.end(p)
			require.Equal(t, []string{"a: " + test.want}, r.heard(), "the reader hears, nothing is dropped")
			require.Len(t, r.Rows(), 1)
			require.Equal(t, test.want, r.Rows()[0].State)
			a.Close(false)
			p.ProducerClosed("closed")
			p.ProducerClosed("closed again")
			require.Equal(t, []string{"p: drop, reader maps false"}, r.heard())
			require.Empty(t, r.Rows())
			require.Error(t, p.Finished())
		})
	}
}

func TestFinishedPartitionIsHeldWhileItsProducerMapsItIfAsked(t *testing.T) {
	r := newRegistry(t, 10)
	p, err := r.Register(Registration{Spec: testSpec(1), Producer: creator, Host: fakeHost{r, "p"},
		HoldWhileMapped: true})
	require.NoError(t, err)
	require.NoError(t, p.Mapped())
	a := r.ask("a", 0)
	require.NoError(t, p.Finished())
	a.Close(true)
	require.Equal(t, []string{"p: attach a to 0", "p: detach 0, consumed true", "p: ended, released"}, r.heard())
	p.ProducerClosed("closed")
	require.Equal(t, []string{"p: drop, reader maps false"}, r.heard())
}

func TestConsumerThatVanishedMayStillMapThePartition(t *testing.T) {
	r := newRegistry(t, 10)
	p := r.register("p", testSpec(1))
	require.NoError(t, p.Mapped())
	a := r.ask("a", 0)
	require.NoError(t, p.Finished())
	a.ConnectionEnded("killed")
	require.Equal(t, []string{"p: attach a to 0", "p: detach 0, consumed false", "p: ended, released"}, r.heard(),
		"given up counts as consumed, but the memory stays until the producer has left")
	p.ProducerClosed("closed")
	require.Equal(t, []string{"p: drop, reader maps true"}, r.heard())
}

func TestSubpartitionIsConsumedOnce(t *testing.T) {
	r := newRegistry(t, 10)
	p := r.register("p", testSpec(2))
	first := r.ask("first", 0)
	r.ask("second", 0)
	require.Empty(t, r.heard())
	require.NoError(t, p.Mapped())
	require.Equal(t, []string{"p: attach first to 0", "second: already consumed"}, r.heard(),
		"first come, first served")
	first.ConnectionEnded("killed")
	r.ask("third", 0)
	r.ask("outside", 2)
	require.Equal(t, []string{"p: detach 0, consumed false", "third: already consumed", "outside: invalid"}, r.heard())
}

func TestRequestWaitsForItsPartition(t *testing.T) {
	r := newRegistry(t, 10)
	r.ask("gives up", 0)
	r.pass(999 * time.Millisecond)
	r.ask("waits", 0)
	leaves := r.ask("leaves", 0)
	require.Empty(t, r.heard())
	r.pass(time.Millisecond)
	require.Equal(t, []string{"gives up: not found"}, r.heard())
	leaves.Close(false)
	leaves.Abort(errors.New("nobody hears this"))
	p := r.register("p", testSpec(1))
	require.Empty(t, r.heard(), "not mapped yet")
	require.NoError(t, p.Mapped())
	require.Equal(t, []string{"p: attach waits to 0"}, r.heard())
	r.pass(time.Hour)
	require.Empty(t, r.heard(), "a deadline that is over")
	r.request(shuffle.NewPartitionID(), 0, creator, "", 0, fakeConsumer{r, "impatient"})
	require.Equal(t, []string{"impatient: not found"}, r.heard())
}

func TestPartitionThatWasNeverMappedLeavesNoTraceWhenReleased(t *testing.T) {
	r := newRegistry(t, 10)
	r.ask("waits", 0)
	p := r.register("first", testSpec(1))
	p.Released("its caller has gone")
	p.ProducerClosed("closed")
	require.Equal(t, []string{"first: drop, reader maps false"}, r.heard())
	again := r.register("again", testSpec(1)) // the same attempt
	require.NoError(t, again.Mapped())
	require.Equal(t, []string{"again: attach waits to 0"}, r.heard())
}

func TestProducerLostBeforeItMappedIsToldToThoseWhoWait(t *testing.T) {
	r := newRegistry(t, 10)
	r.ask("waits", 0)
	r.register("p", testSpec(1)).ProducerClosed("killed")
	require.ElementsMatch(t, []string{"waits: lost", "p: drop, reader maps false"}, r.heard())
}

func TestAttemptsAreFenced(t *testing.T) {
	attempt := func(n uint32) shuffle.PartitionSpec {
		s := testSpec(1)
		s.Attempt = n
		return s
	}
	r := newRegistry(t, 10)
	tryRegister := func(n uint32, uid uint32) error {
		_, err := r.Register(Registration{Spec: attempt(n), Producer: shuffle.Principal{UID: uid},
			Host: fakeHost{r, "x"}})
		return err
	}
	second := r.register("second", attempt(2))
	require.ErrorIs(t, tryRegister(2, creator.UID), shuffle.ErrAlreadyExists)
	require.ErrorIs(t, tryRegister(1, creator.UID), shuffle.ErrFenced)
	require.NoError(t, second.Mapped())
	r.ask("a", 0)
	r.heard()

	third := r.register("third", attempt(3))
	require.ElementsMatch(t, []string{"a: fenced", "second: ended, fenced"}, r.heard(),
		"two at a time: the newer one wins")
	require.ErrorIs(t, second.Finished(), shuffle.ErrFenced)
	require.NoError(t, third.Mapped())
	require.NoError(t, third.Finished())
	require.ErrorIs(t, tryRegister(4, creator.UID), shuffle.ErrAlreadyExists, "a finished one has won")
	third.ProducerClosed("closed")
	b := r.ask("b", 0)
	b.Close(true)
	require.ErrorIs(t, tryRegister(3, creator.UID), shuffle.ErrFenced)
	require.ErrorIs(t, tryRegister(0, creator.UID), shuffle.ErrFenced)
	r.register("fourth", attempt(4))
}

func TestFinishedPartitionExpiresWhileNobodyReadsIt(t *testing.T) {
	r := newRegistry(t, 10)
	p := r.register("p", testSpec(2))
	require.NoError(t, p.Mapped())
	r.pass(time.Hour)
	require.Empty(t, r.heard(), "it is not finished")
	require.NoError(t, p.Finished())
	p.ProducerClosed("closed")
	r.pass(59 * time.Second)
	a := r.ask("a", 0)
	r.pass(time.Hour)
	require.Equal(t, []string{"p: attach a to 0"}, r.heard(), "a slow reader is a reader")
	a.Close(true)
	r.pass(59 * time.Second)
	require.Equal(t, []string{"p: detach 0, consumed true"}, r.heard())
	r.pass(time.Second)
	require.Equal(t, []string{"p: ended, expired", "p: drop, reader maps false"}, r.heard())
	r.ask("late", 1)
	require.Equal(t, []string{"late: expired"}, r.heard())
}

func TestFailuresTellWhatBecameOfThePartition(t *testing.T) {
	r := newRegistry(t, 10)
	p := r.register("p", testSpec(1))
	require.NoError(t, p.Mapped())
	require.ErrorIs(t, p.Mapped(), shuffle.ErrProtocol)
	require.NoError(t, p.Failed("disk on fire"))
	require.NoError(t, p.Failed("again"), "does nothing")
	p.Released("does nothing")
	_, err := r.Row(testID, nil, creator, 0)
	require.NoError(t, err, "its producer still has it open")
	p.ProducerClosed("closed")
	_, err = r.Row(testID, nil, creator, 0)
	require.ErrorIs(t, err, shuffle.ErrPartitionFailed)
	require.ErrorContains(t, err, "disk on fire")
	_, err = r.Row(shuffle.NewPartitionID(), nil, creator, 0)
	require.ErrorIs(t, err, shuffle.ErrPartitionNotFound)

	q := r.register("q", shuffle.PartitionSpec{ID: testID, Attempt: 1, Subpartitions: 1})
	require.ErrorIs(t, q.Finished(), shuffle.ErrProtocol, "before it is mapped")
	require.NoError(t, q.Mapped())
	require.NoError(t, q.Finished())
	require.NoError(t, q.Finished(), "its producer asks again")
	require.ErrorIs(t, q.Failed("too late"), shuffle.ErrFinished)
}

func TestOldTombstonesAreForgotten(t *testing.T) {
	r := newRegistry(t, 2)
	ids := []shuffle.PartitionID{shuffle.NewPartitionID(), shuffle.NewPartitionID(), shuffle.NewPartitionID()}
	for _, id := range []shuffle.PartitionID{ids[0], ids[1], ids[0], ids[2]} {
		attempt := uint32(0)
		if stone := r.tombstones.find(PartitionKey{ID: id, Owner: creator.UID}); stone != nil {
			attempt = stone.attempt + 1
		}
		p := r.register("p", shuffle.PartitionSpec{ID: id, Attempt: attempt, Subpartitions: 1})
		p.ProducerClosed("killed")
	}
	for i, want := range []error{shuffle.ErrProducerLost, shuffle.ErrPartitionNotFound, shuffle.ErrProducerLost} {
		_, err := r.Row(ids[i], nil, creator, 0)
		require.ErrorIs(t, err, want, "id %d", i)
	}
}

func TestWhoMayNotReadFindsNothing(t *testing.T) {
	spec := testSpec(8)
	spec.Name = "a job"
	spec.AllowedUIDs, spec.AllowedGIDs, spec.Token = []uint32{2000}, []uint32{300}, "secret"
	for name, test := range map[string]struct {
		who     shuffle.Principal
		token   string
		allowed bool
	}{
		"creator":       {creator, "", true},
		"root":          {shuffle.Principal{UID: 0}, "", true},
		"allowed user":  {shuffle.Principal{UID: 2000}, "wrong", true},
		"allowed group": {shuffle.Principal{UID: 3000, GID: 300}, "", true},
		"with token":    {shuffle.Principal{UID: 3000}, "secret", true},
		"wrong token":   {shuffle.Principal{UID: 3000}, "secre", false},
		"stranger":      {shuffle.Principal{UID: 3000, GID: 100}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t, 10)
			p := r.register("p", spec)
			require.NoError(t, p.Mapped())
			r.request(testID, 0, test.who, test.token, time.Second, fakeConsumer{r, "a"})
			r.pass(time.Second)
			if test.allowed {
				require.Equal(t, []string{"p: attach a to 0"}, r.heard())
			} else {
				require.Equal(t, []string{"refused 3000 to read a job of 1000", "a: not found"}, r.heard(),
					"as if it did not exist")
			}
			p.Released("by its producer")
			r.heard()
			r.request(testID, 1, test.who, test.token, time.Second, fakeConsumer{r, "b"})
			r.pass(time.Second)
			if test.allowed {
				require.Equal(t, []string{"b: released"}, r.heard())
			} else {
				require.Equal(t, []string{"refused 3000 to read  of 1000", "b: not found"}, r.heard(),
					"nor did it ever")
			}
		})
	}
}

func TestNoTokenIsNotTheEmptyToken(t *testing.T) {
	require.False(t, newAccess(&shuffle.PartitionSpec{}).allows(1, shuffle.Principal{UID: 2}, ""))
	require.False(t, newAccess(&shuffle.PartitionSpec{AllowedUIDs: []uint32{3}}).allows(1, shuffle.Principal{UID: 2},
		""))
}

func TestAbortTellsBothSides(t *testing.T) {
	r := newRegistry(t, 10)
	p := r.register("p", testSpec(1))
	require.NoError(t, p.Mapped())
	a := r.ask("a", 0)
	a.Abort(fmt.Errorf("no descriptors: %w", shuffle.ErrClosed))
	require.Equal(t, []string{"p: attach a to 0", "p: detach 0, consumed false", "a: closed"}, r.heard())
}

func TestClosedManagerRefusesAndTellsNobody(t *testing.T) {
	r := newRegistry(t, 10)
	p := r.register("p", testSpec(2))
	require.NoError(t, p.Mapped())
	a := r.ask("a", 0)
	waits := r.request(shuffle.NewPartitionID(), 0, creator, "", time.Second, fakeConsumer{r, "waits"})
	r.heard()
	r.ResultPartitionManager.Close()
	r.ResultPartitionManager.Close()
	require.Equal(t, []string{"p: drop, reader maps true"}, r.heard())
	a.Close(true)
	waits.Close(false)
	p.ProducerClosed("closed")
	require.ErrorIs(t, p.Finished(), shuffle.ErrClosed)
	r.pass(time.Hour)
	require.Empty(t, r.heard())
	_, err := r.Register(Registration{Spec: testSpec(1), Host: fakeHost{r, "late"}})
	require.ErrorIs(t, err, shuffle.ErrClosed)
	r.ask("late", 0)
	require.Equal(t, []string{"late: closed"}, r.heard())
}

func TestPagesHoldEveryReadablePartitionOnce(t *testing.T) {
	r := newRegistry(t, 1000)
	var want []shuffle.PartitionID
	for i := range 57 {
		id := shuffle.NewPartitionID()
		for attempt := range uint32(1 + i%3) { // older ones linger: they are fenced and not closed
			r.register("p", shuffle.PartitionSpec{ID: id, Attempt: attempt, Subpartitions: 1})
		}
		want = append(want, id)
	}
	_, err := r.Register(Registration{Spec: shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1},
		Producer: shuffle.Principal{UID: 1}, Host: fakeHost{r, "x"}})
	require.NoError(t, err)
	slices.SortFunc(want, func(a, b shuffle.PartitionID) int { return slices.Compare(a[:], b[:]) })
	for _, limit := range []int{1, 10, 56, 57, 58} {
		var got []shuffle.PartitionID
		var after PartitionKey
		for more := true; more; {
			var rows []HostedInfo
			rows, more = r.Page(after, limit, creator)
			require.LessOrEqual(t, len(rows), limit)
			for _, row := range rows {
				got = append(got, row.ID)
				require.Equal(t, "created", row.State, "the newest attempt")
			}
			after = PartitionKey{ID: got[len(got)-1], Owner: creator.UID}
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
}

func TestRunFiresDeadlinesAndEndsWithItsContext(t *testing.T) {
	m := NewResultPartitionManager(ManagerConfig{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	failed := make(chan error, 1)
	claim := SubpartitionClaim{Partition: testID, Owner: creator.UID, Who: creator}
	m.NewRequest(claim, failingConsumer{make(chan error, 1)}).Start(time.Hour)
	m.NewRequest(claim, failingConsumer{failed}).Start(time.Millisecond)
	require.ErrorIs(t, <-failed, shuffle.ErrPartitionNotFound)
	cancel()
	<-done
}

type failingConsumer struct{ failed chan error }

func (c failingConsumer) Failed(err error)     { c.failed <- err }
func (c failingConsumer) Place() (uint64, int) { return 0, 0 }

func TestPanickingHostDoesNotSilenceTheOthers(t *testing.T) {
	r := newRegistry(t, 10)
	p := r.register("p", testSpec(3))
	r.request(testID, 0, creator, "", time.Second, fakeConsumer{r, "a"})
	r.request(testID, 7, creator, "", time.Second, panickingConsumer{})
	r.request(testID, 1, creator, "", time.Second, fakeConsumer{r, "b"})
	require.Panics(t, func() { _ = p.Mapped() })
	r.ask("c", 2)
	require.Equal(t, []string{"p: attach a to 0", "p: attach b to 1", "p: attach c to 2"}, r.heard())
}

type panickingConsumer struct{}

func (panickingConsumer) Failed(error)         { panic("broken") }
func (panickingConsumer) Place() (uint64, int) { return 0, 0 }

// The registry is driven by random operations from several goroutines; at the
// end, everything is given back exactly once.
func TestRandomOperationsGiveEverythingBack(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := newRegistry(t, 100)
	r.config.Refused = func(Refusal) {} // others hold the lock at any time
	var drops, registered sync.Map
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(worker)))
			var mine []*HostedPartition
			var requests []*SubpartitionRequest
			for range 3000 {
				id := shuffle.NamedPartitionID(fmt.Sprint(rng.IntN(8)))
				switch rng.IntN(8) {
				case 0, 1:
					host := &countingHost{drops: &drops}
					p, err := r.Register(Registration{
						Spec: shuffle.PartitionSpec{ID: id, Attempt: rng.Uint32N(1 << 20),
							Replace: rng.IntN(2) == 0, Subpartitions: 3},
						Producer: []shuffle.Principal{creator, other}[rng.IntN(2)], Host: host,
						HoldWhileMapped: rng.IntN(2) == 0,
					})
					if err == nil {
						registered.Store(host, true)
						mine = append(mine, p)
						_ = p.Mapped()
					}
				case 2, 3:
					requests = append(requests, r.claim(SubpartitionClaim{
						Partition: id, Owner: []shuffle.Principal{creator, other}[rng.IntN(2)].UID, Who: creator,
						Subpartition: rng.IntN(4),
						MinAttempt:   rng.Uint32N(1 << 20), Exact: rng.IntN(4) == 0,
					}, time.Minute, silentConsumer{}))
				case 4, 5:
					if len(requests) > 0 {
						q := requests[rng.IntN(len(requests))]
						[]func(){func() { q.Close(true) }, func() { q.Close(false) }, func() { q.ConnectionEnded("x") },
							func() { q.Abort(shuffle.ErrClosed) }}[rng.IntN(4)]()
					}
				case 6:
					if len(mine) > 0 {
						p := mine[rng.IntN(len(mine))]
						[]func(){func() { _ = p.Finished() }, func() { _ = p.Failed("x") }, func() { p.Released("x") },
							func() { p.ProducerClosed("x") }, p.Undone}[rng.IntN(5)]()
					}
				case 7:
					_ = r.Rows()
					_, _ = r.Row(id, nil, creator, 10)
					_, _ = r.NextAttempt(id, other.UID)
				}
			}
			for _, q := range requests {
				q.Close(true)
			}
			for _, p := range mine {
				p.ProducerClosed("end")
			}
		})
	}
	wg.Wait()
	r.now = r.now.Add(time.Hour) // finished ones expire
	r.Sweep(r.now)
	require.Empty(t, r.Rows())
	<-r.Empty()
	require.Empty(t, r.partitions)
	require.Empty(t, r.byID)
	checkTombstones(t, &r.tombstones)
	require.Empty(t, r.waiting)
	_, ok := r.Sweep(r.now)
	require.False(t, ok, "no deadline is left")
	registered.Range(func(host, _ any) bool {
		n, _ := drops.Load(host)
		require.Equal(t, 1, n)
		return true
	})
}

type countingHost struct{ drops *sync.Map }

func (h *countingHost) Attach(*SubpartitionRequest)        {}
func (h *countingHost) ConsumerDetached(int, bool, string) {}
func (h *countingHost) Ended(error)                        {}
func (h *countingHost) Drop(bool) {
	n, _ := h.drops.LoadOrStore(h, 0)
	h.drops.Store(h, n.(int)+1)
}

type silentConsumer struct{}

func (silentConsumer) Failed(error)         {}
func (silentConsumer) Place() (uint64, int) { return 0, 0 }
