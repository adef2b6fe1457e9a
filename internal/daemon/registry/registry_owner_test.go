package registry

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// other is another user than creator.
var other = shuffle.Principal{UID: 2000, GID: 200}

func (r *registry) registerAs(name string, who shuffle.Principal, spec shuffle.PartitionSpec) *HostedPartition {
	p, err := r.Register(Registration{Spec: spec, Producer: who, Host: fakeHost{r, name}})
	require.NoError(r.t, err)
	return p
}

// failures keeps what a consumer was told.
type failures struct{ got []error }

func (f *failures) Failed(err error)     { f.got = append(f.got, err) }
func (f *failures) Place() (uint64, int) { return 7, 3 }

func TestAnIdMeansSomethingAmongThePartitionsOfOneUserOnly(t *testing.T) {
	r := newRegistry(t, 10)
	forged := testSpec(1)
	forged.Attempt, forged.AllowedUIDs, forged.Token = 7, []uint32{creator.UID}, "secret"
	squatter := r.registerAs("forged", other, forged)
	require.NoError(t, squatter.Mapped())
	r.request(testID, 0, creator, "secret", time.Second, fakeConsumer{r, "a"})
	require.Empty(t, r.heard(), "whoever came first: it waits for that of its owner")

	p := r.register("own", testSpec(1))
	require.NoError(t, p.Mapped())
	require.Equal(t, []string{"own: attach a to 0"}, r.heard())
	require.NoError(t, squatter.Failed("burnt"))
	r.registerAs("forged again", other, shuffle.PartitionSpec{ID: testID, Attempt: shuffle.MaxAttempt,
		Subpartitions: 1}).ProducerClosed("killed")
	require.NotContains(t, r.heard(), "a: fenced")
	require.NoError(t, p.Finished(), "what another user does is nothing to it")

	next, err := r.NextAttempt(testID, creator.UID)
	require.NoError(t, err)
	require.EqualValues(t, 1, next, "nor are its attempts counted with those of others")
}

func TestAConsumerSaysWhoseDataItReads(t *testing.T) {
	r := newRegistry(t, 10)
	spec := testSpec(2)
	spec.AllowedUIDs = []uint32{other.UID}
	require.NoError(t, r.register("creator's", spec).Mapped())
	require.NoError(t, r.registerAs("other's", other, testSpec(2)).Mapped())
	r.claim(SubpartitionClaim{Partition: testID, Owner: other.UID, Who: other}, time.Second, fakeConsumer{r, "a"})
	r.claim(SubpartitionClaim{Partition: testID, Owner: creator.UID, Who: other}, time.Second, fakeConsumer{r, "b"})
	require.Equal(t, []string{"other's: attach a to 0", "creator's: attach b to 0"}, r.heard())

	rows, more := r.Page(PartitionKey{}, 1, shuffle.Principal{UID: 0})
	require.True(t, more)
	require.Len(t, rows, 1)
	require.Equal(t, creator.UID, rows[0].Producer.UID, "equal ids are in the order of their owners")
	rows, more = r.Page(PartitionKey{ID: testID, Owner: creator.UID}, 1, shuffle.Principal{UID: 0})
	require.False(t, more)
	require.Len(t, rows, 1)
	require.Equal(t, other.UID, rows[0].Producer.UID)

	row, err := r.Row(testID, nil, other, 0)
	require.NoError(t, err)
	require.Equal(t, other.UID, row.Producer.UID, "one's own comes first")
	row, err = r.Row(testID, &creator.UID, other, 0)
	require.NoError(t, err)
	require.Equal(t, creator.UID, row.Producer.UID)
	_, err = r.Row(testID, nil, shuffle.Principal{UID: 0}, 0)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	require.ErrorContains(t, err, "it is of the uids 1000 2000, say whose")
	row, err = r.Row(testID, nil, creator, 0)
	require.NoError(t, err)
	require.Equal(t, creator.UID, row.Producer.UID)
}

// To the letter: whoever may not read cannot tell a partition that is there, that
// has ended or that never was.
func TestWhoMayNotReadIsToldTheSameOfEveryPartition(t *testing.T) {
	stranger := shuffle.Principal{UID: 3000, GID: 300}
	var texts []string
	for name, prepare := range map[string]func(r *registry){
		"never":   func(*registry) {},
		"created": func(r *registry) { r.register("p", testSpec(1)) },
		"running": func(r *registry) { require.NoError(t, r.register("p", testSpec(1)).Mapped()) },
		"failed":  func(r *registry) { require.NoError(t, r.register("p", testSpec(1)).Failed("the secret")) },
		"lost":    func(r *registry) { r.register("p", testSpec(1)).ProducerClosed("killed") },
	} {
		r := newRegistry(t, 10)
		prepare(r)
		r.heard()
		f := &failures{}
		r.claim(SubpartitionClaim{Partition: testID, Owner: creator.UID, Who: stranger}, time.Second, f)
		require.Empty(t, f.got, "%s: at the same time, too", name)
		r.pass(time.Second)
		require.Len(t, f.got, 1)
		_, err := r.Row(testID, nil, stranger, 1)
		texts = append(texts, f.got[0].Error()+" / "+err.Error())
		if name != "never" {
			require.Len(t, r.heard(), 2, "%s: who tried is noted, once a try", name)
		}
		rows, more := r.Page(PartitionKey{}, 10, stranger)
		require.Empty(t, rows)
		require.False(t, more)
	}
	for _, text := range texts {
		require.Equal(t, texts[0], text)
	}
}

func TestAnAttemptErrorSaysWhichAttemptCanBeCreated(t *testing.T) {
	attempt := func(n uint32) shuffle.PartitionSpec {
		return shuffle.PartitionSpec{ID: testID, Attempt: n, Name: "map 3", Subpartitions: 1}
	}
	r := newRegistry(t, 10)
	refused := func(n uint32, sentinel error, next uint32, text string) {
		t.Helper()
		_, err := r.Register(Registration{Spec: attempt(n), Producer: creator, Host: fakeHost{r, "x"}})
		require.ErrorIs(t, err, sentinel)
		var a *shuffle.AttemptError
		require.ErrorAs(t, err, &a)
		require.Equal(t, shuffle.AttemptError{Partition: testID, Attempt: n, Next: next, Err: a.Err}, *a)
		require.EqualError(t, err, `partition "map 3" (`+testID.String()+`), attempt `+text)
	}
	next := func() uint32 {
		n, err := r.NextAttempt(testID, creator.UID)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, next())
	p := r.register("p", attempt(4))
	require.EqualValues(t, 5, next())
	refused(4, shuffle.ErrAlreadyExists, 5, "4: partition already exists: it is created; the next attempt is 5")
	refused(3, shuffle.ErrFenced, 5,
		"3: attempt was fenced by a newer or ended one: attempt 4 is created; the next attempt is 5")
	require.NoError(t, p.Mapped())
	require.NoError(t, p.Finished())
	refused(4, shuffle.ErrAlreadyExists, 5, "4: partition already exists: it is finished; the next attempt is 5")
	refused(5, shuffle.ErrAlreadyExists, 5,
		"5: partition already exists: attempt 4 is finished and can be read; Replace takes its place; the next attempt is 5")
	p.Released("by its producer")
	refused(4, shuffle.ErrFenced, 5,
		"4: attempt was fenced by a newer or ended one: attempt 4 has ended (released); the next attempt is 5")
	require.EqualValues(t, 5, next())

	r.register("last", attempt(math.MaxUint32)).ProducerClosed("killed")
	refused(5, shuffle.ErrFenced, 0,
		"5: attempt was fenced by a newer or ended one: attempt 4294967295 has ended (lost); no attempt is left, take another id")
	_, err := r.NextAttempt(testID, creator.UID)
	require.ErrorIs(t, err, shuffle.ErrFenced)
	var a *shuffle.AttemptError
	require.ErrorAs(t, err, &a)
	require.Zero(t, a.Next)
}

func TestAFinishedAttemptIsReplacedIfAsked(t *testing.T) {
	r := newRegistry(t, 10)
	p := r.register("p", testSpec(2))
	require.NoError(t, p.Mapped())
	r.ask("a", 0)
	require.NoError(t, p.Finished())
	spec := testSpec(2)
	spec.Attempt, spec.Replace = 1, true
	q := r.register("q", spec)
	require.Equal(t, []string{"p: attach a to 0", "a: fenced", "p: ended, fenced"}, r.heard())
	r.ask("b", 1)
	require.NoError(t, q.Mapped())
	require.Equal(t, []string{"q: attach b to 1"}, r.heard())
}

func TestAConsumerPassesOverOlderAttempts(t *testing.T) {
	attempt := func(n uint32) shuffle.PartitionSpec {
		return shuffle.PartitionSpec{ID: testID, Attempt: n, Subpartitions: 4}
	}
	from := func(n uint32, sub int) SubpartitionClaim {
		return SubpartitionClaim{Partition: testID, Owner: creator.UID, Who: creator, MinAttempt: n, Subpartition: sub}
	}
	r := newRegistry(t, 10)
	first := r.register("first", attempt(1))
	require.NoError(t, first.Mapped())
	r.claim(from(2, 0), time.Minute, fakeConsumer{r, "while it is there"})
	first.ProducerClosed("killed")
	r.claim(from(2, 1), time.Minute, fakeConsumer{r, "after it is lost"})
	r.claim(from(0, 2), time.Minute, fakeConsumer{r, "of any"})
	require.Equal(t, []string{"first: drop, reader maps false", "of any: lost"}, r.heard())
	third := r.register("third", attempt(3))
	require.NoError(t, third.Mapped())
	require.Equal(t, []string{"third: attach while it is there to 0", "third: attach after it is lost to 1"}, r.heard())
	third.ProducerClosed("killed")
	r.heard()
	r.claim(from(2, 2), time.Minute, fakeConsumer{r, "too late"})
	require.Equal(t, []string{"too late: lost"}, r.heard())
	f := &failures{}
	r.claim(from(9, 0), time.Second, f)
	r.pass(time.Second)
	require.ErrorIs(t, f.got[0], shuffle.ErrPartitionNotFound)
	require.ErrorContains(t, f.got[0], "attempt 9 or newer did not appear")
}

func TestAConsumerOfExactlyOneAttemptIsFencedByNewerOnes(t *testing.T) {
	exactly := SubpartitionClaim{Partition: testID, Owner: creator.UID, Who: creator, MinAttempt: 1, Exact: true}
	attempt := func(n uint32) shuffle.PartitionSpec {
		return shuffle.PartitionSpec{ID: testID, Attempt: n, Subpartitions: 1}
	}
	r := newRegistry(t, 10)
	requireFenced := func(f *failures) {
		t.Helper()
		require.Len(t, f.got, 1)
		require.ErrorIs(t, f.got[0], shuffle.ErrFenced)
		var a *shuffle.AttemptError
		require.ErrorAs(t, f.got[0], &a)
		require.EqualValues(t, 1, a.Attempt)
		require.EqualValues(t, 4, a.Next)
	}
	r.register("zeroth", attempt(0))
	waits, late, later := &failures{}, &failures{}, &failures{}
	r.claim(exactly, time.Minute, waits)
	require.Empty(t, waits.got)
	third := r.register("third", attempt(3))
	requireFenced(waits) // it is not mapped yet, and yet it is known to be newer
	r.claim(exactly, time.Minute, late)
	requireFenced(late)
	require.NoError(t, third.Mapped())
	third.ProducerClosed("killed")
	r.claim(exactly, time.Minute, later)
	requireFenced(later)
}

func TestThoseWhoWaitForAnAttemptThatIsReplacedGetTheNewOne(t *testing.T) {
	r := newRegistry(t, 10)
	r.register("first", testSpec(1))
	r.ask("a", 0)
	spec := testSpec(1)
	spec.Attempt = 1
	p := r.register("second", spec)
	require.Equal(t, []string{"first: ended, fenced"}, r.heard())
	require.NoError(t, p.Mapped())
	require.Equal(t, []string{"second: attach a to 0"}, r.heard())
}

func TestACreationThatIsTakenBackLeavesNoTraceUnlessSomebodyHasReadIt(t *testing.T) {
	r := newRegistry(t, 10)
	p := r.register("p", testSpec(1))
	require.NoError(t, p.Mapped())
	p.Undone()
	p.Undone()
	p.ProducerClosed("closed")
	require.Equal(t, []string{"p: drop, reader maps false"}, r.heard())
	q := r.register("q", testSpec(1)) // the same attempt
	require.NoError(t, q.Mapped())
	r.ask("a", 0)
	q.Undone()
	q.ProducerClosed("closed")
	require.Equal(t, []string{"q: attach a to 0", "a: released"}, r.heard())
	_, err := r.Register(Registration{Spec: testSpec(1), Producer: creator, Host: fakeHost{r, "x"}})
	require.ErrorIs(t, err, shuffle.ErrFenced)
}

func TestErrorsOfAnEndNameThePartitionAndItsAttempt(t *testing.T) {
	r := newRegistry(t, 10)
	spec := testSpec(1)
	spec.Name, spec.Attempt = "map\x1b[2J", 3
	p, err := r.Register(Registration{Spec: spec, Producer: creator, Host: silentHost{}})
	require.NoError(t, err)
	require.NoError(t, p.Mapped())
	f := &failures{}
	r.claim(SubpartitionClaim{Partition: testID, Owner: creator.UID, Who: creator}, time.Minute, f)
	require.NoError(t, p.Failed("disk on fire"))
	require.Len(t, f.got, 1)
	require.EqualError(t, f.got[0],
		`partition "map\x1b[2J" (`+testID.String()+`), attempt 3: partition failed: disk on fire`)
	var a *shuffle.AttemptError
	require.True(t, errors.As(f.got[0], &a))
	require.Equal(t, shuffle.AttemptError{Partition: testID, Attempt: 3, Next: 4, Err: a.Err}, *a)
}
