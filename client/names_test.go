package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// A logBuffer keeps what the daemon logs.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// lines returns the lines of a message, decoded.
func (b *logBuffer) lines(t *testing.T, message string) (lines []map[string]any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		fields := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if fields["msg"] == message {
			lines = append(lines, fields)
		}
	}
	return lines
}

// owner and intruder are two users of one group that may connect.
const owner, intruder, group = 2001, 2002, 3000

func startSharedDaemon(t *testing.T) (*testDaemon, *logBuffer) {
	log := &logBuffer{}
	config := testConfig()
	config.AllowedGIDs = []uint32{group}
	config.Logger = slog.New(slog.NewJSONHandler(log, nil))
	return startDaemon(t, config), log
}

func (d *testDaemon) mustDialAs(t *testing.T, uid uint32) *Client {
	t.Helper()
	c, err := d.dialAs(t, uid, group)
	require.NoError(t, err)
	return c
}

// Whoever creates another's name first, and lets the other read it, is not read.
func TestAnotherUserCanNeitherForgeNorBurnNorFenceAName(t *testing.T) {
	d, _ := startSharedDaemon(t)
	honest, hostile := d.mustDialAs(t, owner), d.mustDialAs(t, intruder)
	ctx := testContext(t)
	s := spec(1)
	s.Token = "sesame"

	forged := s
	forged.AllowedUIDs = []uint32{owner, 0}
	squatter := create(t, hostile, forged)
	require.NoError(t, squatter.EmitRecord(ctx, framed("forged"), 0))
	require.NoError(t, squatter.Finish(ctx))

	input := shuffle.Input{Partition: s.ID, Token: "sesame"}
	gate, err := honest.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{input}, Timeout: patience})
	require.NoError(t, err)
	_, ok, err := gate.TryNext()
	require.NoError(t, err)
	require.False(t, ok)

	next, err := honest.NextAttempt(ctx, s.ID)
	require.NoError(t, err)
	require.Zero(t, next)
	p := create(t, honest, s) // the name is free to its owner
	require.NoError(t, p.EmitRecord(ctx, framed("genuine"), 0))

	burnt := forged
	burnt.Attempt, burnt.Replace = shuffle.MaxAttempt, true
	last := create(t, hostile, burnt)
	require.NoError(t, last.Fail(ctx, context.Canceled))
	require.NoError(t, p.EmitRecord(ctx, framed("still genuine"), 0), "it is not fenced")
	require.NoError(t, p.Finish(ctx))
	require.Equal(t, []string{"genuine", "still genuine"}, readAll(t, gate)[0])
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())

	_, err = honest.CreatePartition(ctx, s)
	require.ErrorIs(t, err, shuffle.ErrFenced)
	var ended *shuffle.AttemptError
	require.ErrorAs(t, err, &ended)
	require.EqualValues(t, 1, ended.Next, "not burnt")
	s.Attempt = ended.Next
	create(t, honest, s)

	// Who names the owner reads that of the owner, and no other.
	input.Owner = new(uint32(intruder))
	gate, err = honest.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{input}})
	require.NoError(t, err)
	_, err = nextError(t, gate)
	require.ErrorIs(t, err, shuffle.ErrPartitionFailed, "by its own doing")
	require.NoError(t, gate.Close())
}

func TestRefusedReadsLeaveALineForTheOperatorAndNothingForTheIntruder(t *testing.T) {
	d, log := startSharedDaemon(t)
	honest, hostile := d.mustDialAs(t, owner), d.mustDialAs(t, intruder)
	ctx := testContext(t)
	s := spec(1)
	s.Name = "payroll\n"
	p := create(t, honest, s)
	require.NoError(t, p.Fail(ctx, context.DeadlineExceeded))

	told := func(id shuffle.PartitionID) string {
		_, err := hostile.InspectOf(ctx, id, owner)
		require.ErrorIs(t, err, shuffle.ErrPartitionNotFound)
		gate, openErr := hostile.OpenGate(ctx, shuffle.GateSpec{
			Inputs:  []shuffle.Input{{Partition: id, Owner: new(uint32(owner)), Token: "guess"}},
			Timeout: time.Millisecond,
		})
		require.NoError(t, openErr)
		_, next := nextError(t, gate)
		require.ErrorIs(t, next, shuffle.ErrPartitionNotFound)
		require.NoError(t, gate.Close())
		return strings.ReplaceAll(err.Error()+next.Error(), id.String(), "ID")
	}
	there := told(s.ID)
	require.NoError(t, p.Close())
	ended := told(s.ID)
	never := told(shuffle.NewPartitionID())
	require.Equal(t, never, there)
	require.Equal(t, never, ended)
	rows, err := hostile.List(ctx)
	require.NoError(t, err)
	require.Empty(t, rows)

	lines := log.lines(t, "access refused")
	require.Len(t, lines, 4)
	for i, action := range []string{"inspect", "read", "inspect", "read"} {
		require.Equal(t, action, lines[i]["action"])
		require.EqualValues(t, intruder, lines[i]["uid"])
		require.EqualValues(t, owner, lines[i]["owner"])
		require.Equal(t, s.ID.String(), lines[i]["partition"])
		require.NotEmpty(t, lines[i]["reason"])
	}
	require.Equal(t, s.Name, lines[0]["name"])
	require.EqualValues(t, 4, d.Snapshot().Rejects["access_denied"])

	for range 100 {
		_, err := hostile.InspectOf(ctx, s.ID, owner)
		require.ErrorIs(t, err, shuffle.ErrPartitionNotFound)
	}
	require.EqualValues(t, 104, d.Snapshot().Rejects["access_denied"], "all are counted")
}

func TestEqualIdsOfTwoUsersAreListedBoth(t *testing.T) {
	d, _ := startSharedDaemon(t)
	first, second, root := d.mustDialAs(t, owner), d.mustDialAs(t, intruder), d.dial(t)
	ctx := testContext(t)
	s := spec(1)
	create(t, second, s)
	create(t, first, s)
	rows, err := root.List(ctx)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.EqualValues(t, owner, rows[0].Producer.UID)
	require.EqualValues(t, intruder, rows[1].Producer.UID)
	_, err = root.Inspect(ctx, s.ID)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	require.ErrorContains(t, err, "2001 2002")
	row, err := root.InspectOf(ctx, s.ID, intruder)
	require.NoError(t, err)
	require.EqualValues(t, intruder, row.Producer.UID)
	row, err = first.Inspect(ctx, s.ID)
	require.NoError(t, err)
	require.EqualValues(t, owner, row.Producer.UID)
}

func TestAnErrorNamesWhatTheConsumerWaitedFor(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	id := shuffle.NamedPartitionID("job-42/map-3")
	gate, err := c.OpenGate(testContext(t), shuffle.GateSpec{
		Inputs: []shuffle.Input{{Partition: id, Name: "job-42/map-3", MinAttempt: 7}}, Timeout: time.Millisecond,
	})
	require.NoError(t, err)
	_, err = nextError(t, gate)
	require.ErrorIs(t, err, shuffle.ErrPartitionNotFound)
	require.ErrorContains(t, err,
		fmt.Sprintf(`"job-42/map-3" (%s) of uid %d, attempt 7 or newer did not appear within 1ms`, id, os.Geteuid()))
	require.NoError(t, gate.Close())
	_, err = c.OpenGate(testContext(t), shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id, Name: "\xff"}}})
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
}

// The state of the partition decides, so each of these is the same every time.
func TestCreatingOneAttemptTwiceHasOneMeaning(t *testing.T) {
	d := startDaemon(t, testConfig())
	c, again := d.dial(t), d.dial(t)
	ctx := testContext(t)
	for name, row := range map[string]struct {
		end  func(p shuffle.ResultPartition) error
		want error
	}{
		"produced": {func(shuffle.ResultPartition) error { return nil }, shuffle.ErrAlreadyExists},
		"finished": {func(p shuffle.ResultPartition) error { return p.Finish(ctx) }, shuffle.ErrAlreadyExists},
		"failed":   {func(p shuffle.ResultPartition) error { return p.Fail(ctx, context.Canceled) }, shuffle.ErrFenced},
		"released": {func(p shuffle.ResultPartition) error { return p.Release(ctx) }, shuffle.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(1)
			s.Attempt = 4
			p := create(t, c, s)
			require.NoError(t, row.end(p))
			for range 3 {
				_, err := again.CreatePartition(ctx, s)
				require.ErrorIs(t, err, row.want)
				var a *shuffle.AttemptError
				require.ErrorAs(t, err, &a)
				require.Equal(t, shuffle.AttemptError{Partition: s.ID, Attempt: 4, Next: 5, Err: a.Err}, *a)
			}
		})
	}
}

func TestOneOfManyWhoCreateAnAttemptAtOnceGetsIt(t *testing.T) {
	d := startDaemon(t, testConfig())
	var clients []*Client
	for range 4 {
		clients = append(clients, d.dial(t))
	}
	s := spec(1)
	for range 20 {
		results := make(chan error, 2*len(clients))
		created := make(chan shuffle.ResultPartition, cap(results))
		for i := range cap(results) {
			go func() {
				p, err := clients[i%len(clients)].CreatePartition(testContext(t), s)
				if err == nil {
					created <- p
				}
				results <- err
			}()
		}
		won := 0
		for range cap(results) {
			err := <-results
			if err == nil {
				won++
				continue
			}
			require.ErrorIs(t, err, shuffle.ErrAlreadyExists)
			var a *shuffle.AttemptError
			require.ErrorAs(t, err, &a)
			require.Equal(t, s.Attempt+1, a.Next)
		}
		require.Equal(t, 1, won)
		require.NoError(t, (<-created).Close())
		s.Attempt++
		require.Eventually(t, func() bool {
			next, err := clients[0].NextAttempt(testContext(t), s.ID)
			return err == nil && next == s.Attempt
		}, patience, time.Millisecond)
	}
}

func TestProducerAndConsumerOfAFencedAttemptAreToldWhichIsNext(t *testing.T) {
	d := startDaemon(t, testConfig())
	c, again := d.dial(t), d.dial(t)
	ctx := testContext(t)
	s := spec(1)
	old := create(t, c, s)
	gate := openOne(t, c, s.ID, 0)
	require.NoError(t, old.EmitRecord(ctx, framed("committed"), 0))
	require.NoError(t, old.FlushAll())
	b, err := gate.Next(ctx)
	require.NoError(t, err)
	require.NoError(t, b.Release())
	require.NoError(t, old.EmitRecord(ctx, framed("and this"), 0))
	require.NoError(t, old.FlushAll())

	next, err := again.NextAttempt(ctx, s.ID)
	require.NoError(t, err)
	s.Attempt = next
	create(t, again, s)
	data, err := nextError(t, gate)
	require.Equal(t, string(framed("and this")), data, "what is committed comes first")
	for range 2 {
		require.ErrorIs(t, err, shuffle.ErrFenced)
		var a *shuffle.AttemptError
		require.ErrorAs(t, err, &a)
		require.Equal(t, shuffle.AttemptError{Partition: s.ID, Attempt: 0, Next: 1, Err: a.Err}, *a)
		require.Eventually(t, func() bool {
			err = old.EmitRecord(ctx, framed("x"), 0)
			return err != nil
		}, patience, time.Millisecond)
	}

	exact := gateOf(s.ID, 0)
	exact.Inputs[0].ExactAttempt = true
	late, err := c.OpenGate(ctx, exact)
	require.NoError(t, err)
	_, err = nextError(t, late)
	require.ErrorIs(t, err, shuffle.ErrFenced, "a consumer that is left over takes nothing from its successor")
	require.NoError(t, late.Close())
}

// What was given up is taken back before the same client asks again.
func TestACreationThatWasGivenUpCanBeRepeated(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	s := spec(1)
	for i := range 300 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Microsecond)
		p, err := c.CreatePartition(ctx, s)
		cancel()
		if err == nil {
			require.NoError(t, p.Release(testContext(t)))
			require.NoError(t, p.Close())
			s.Attempt++
			continue
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	create(t, c, s)
}

func TestTextsOfOthersReachAConsumerEscaped(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	s.Name = "na\x1b[2Jme"
	p, err := producer.CreatePartition(testContext(t), s)
	require.NoError(t, err)
	gate, err := consumer.OpenGate(testContext(t), gateOf(s.ID, 0))
	require.NoError(t, err)
	require.NoError(t,
		p.Fail(testContext(t), errors.New("boom\x1b]0;title\a\nall is well \xff\u202e"+strings.Repeat("x", 1<<20))))
	_, err = gate.Next(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrPartitionFailed)
	require.ErrorContains(t, err, `"na\x1b[2Jme"`)
	require.ErrorContains(t, err, `boom\x1b]0;title\a\nall is well `)
	require.NotRegexp(t, `[^\pL\pM\pN\pP\pS\p{Zs}]`, err.Error())
	require.Less(t, len(err.Error()), 5000)
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
}
