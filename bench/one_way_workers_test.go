package bench

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plannedRecords returns a function that makes a producer's next record, planned
// as if the first one were due at start.
func plannedRecords(size int, start time.Duration, plan sendingPlan) (next func() []byte) {
	source, number := newRecordSource(size, 0), int64(0)
	return func() []byte {
		record := source.one()[framePrefix:]
		binary.LittleEndian.PutUint64(record[plannedTimeAt:], uint64(start+plan.due(number)))
		number++
		return record
	}
}

func TestLatencyIsFromThePlannedTimeToTheArrival(t *testing.T) {
	plan := sendingPlan{Rate: 1000, Duration: time.Second}
	timer := newArrivalTimer(100, plan)
	const late = 10 * time.Second
	start := now() - late
	next := plannedRecords(100, start, plan)
	for range 5 {
		require.NoError(t, timer.arrive(next()))
	}
	res, err := timer.result(Span{CPU: 3})
	require.NoError(t, err)
	require.EqualValues(t, 5, res.Records)
	require.Equal(t, Span{Start: start, End: timer.last, CPU: 3}, res.Span)
	taken, err := res.Latencies.decode()
	require.NoError(t, err)
	require.EqualValues(t, 5, taken.count())
	require.GreaterOrEqual(t, taken.longest, late, "a record counts from when it was due, however late it was sent")
}

func TestRecordsThatArriveInTheWarmUpAreCheckedAndNotKept(t *testing.T) {
	plan := sendingPlan{Rate: 1000, WarmUp: time.Hour}
	timer := newArrivalTimer(100, plan)
	next := plannedRecords(100, now()-time.Second, plan)
	require.NoError(t, timer.arrive(next()))
	require.Zero(t, timer.latencies.count())
	require.EqualValues(t, 1, timer.checker.count())
}

func TestArrivalsWithWrongContentAreRefused(t *testing.T) {
	plan := sendingPlan{Rate: 1000}
	for name, row := range map[string]struct {
		spoil func(record []byte) []byte
		want  string
	}{
		"number": {func(r []byte) []byte { r[0] ^= 1; return r },
			"record 1 is number 0 of producer 0, want number 1"},
		"planned time": {func(r []byte) []byte { r[plannedTimeAt] ^= 1; return r }, "byte 8 of 100 is"},
		"pattern":      {func(r []byte) []byte { r[99] ^= 1; return r }, "byte 99 of 100 is"},
		"size":         {func(r []byte) []byte { return r[:17] }, "record 1 has 17 bytes, want 100"},
	} {
		timer := newArrivalTimer(100, plan)
		next := plannedRecords(100, now()-time.Second, plan)
		require.NoError(t, timer.arrive(next()))
		err := timer.arrive(row.spoil(next()))
		require.ErrorIs(t, err, ErrContent, name)
		require.ErrorContains(t, err, row.want, name)
		require.EqualValues(t, 1, timer.latencies.count(), name)
	}
	timer := newArrivalTimer(100, plan)
	err := timer.arrive(plannedRecords(100, now()+time.Hour, plan)())
	require.ErrorIs(t, err, ErrContent)
	require.ErrorContains(t, err, "after it arrived")
	require.ErrorIs(t, newArrivalTimer(100, plan).arrive(nil), ErrContent)
}

func TestRecordsAreDueAtTheRateWithoutDrift(t *testing.T) {
	plan := sendingPlan{Rate: 3}
	require.Zero(t, plan.due(0))
	require.Equal(t, 333333333*time.Nanosecond, plan.due(1))
	require.Equal(t, time.Second, plan.due(3))
	require.Equal(t, time.Hour, plan.due(3*3600))
}

// A slowEnd takes a while for each record that it throws away.
type slowEnd struct {
	latencyEnd
	delay time.Duration
}

func (e *slowEnd) send(context.Context, []byte) error {
	time.Sleep(e.delay)
	return nil
}

func TestProducerThatWasStoppedSendsEverythingThatBecameDue(t *testing.T) {
	producer := timedProducer{Plan: sendingPlan{Rate: 0.1, Duration: time.Hour}}
	sent, err := producer.send(t.Context(), &slowEnd{}, newRecordSource(100, 0), now()-24*time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 360, sent)
}

func TestProducerThatCannotSendAtItsRateGivesUp(t *testing.T) {
	producer := timedProducer{Plan: sendingPlan{Rate: 1e6, Duration: 10 * time.Millisecond}}
	sent, err := producer.send(t.Context(), &slowEnd{delay: time.Millisecond}, newRecordSource(100, 0), now())
	require.NoError(t, err)
	require.Positive(t, sent)
	require.Less(t, sent, int64(10_000), "records that were planned")
}

func TestPauseEndsAtItsTimeAndNotBefore(t *testing.T) {
	for _, spin := range []bool{true, false} {
		pause := startPauses(spin)
		for _, ahead := range []time.Duration{-time.Second, 0, time.Microsecond, 2 * spinBefore} {
			due := now() + ahead
			require.GreaterOrEqual(t, pause.until(due), due)
			require.GreaterOrEqual(t, now(), due)
		}
		pause.stop()
	}
}
