package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

func TestScaleReplacesNumbersThatDoNotFitByTheLargestThatDoes(t *testing.T) {
	s := Scale{Partitions: []int{1, 100, MaxScale}}
	counts, tooMany := s.plan(results.Machine{Memory: 4 << 20})
	require.Equal(t, 1, counts[0])
	require.Len(t, counts, 2)
	require.Greater(t, counts[1], 1)
	require.Less(t, counts[1], 100)
	require.Contains(t, tooMany, "100000 partitions do not fit: they take ")
	require.Contains(t, tooMany, "there is 4.0 MiB")

	counts, tooMany = s.plan(results.Machine{Memory: 100})
	require.Empty(t, counts)
	require.NotEmpty(t, tooMany)
}

func TestScaleNamesTheLimitAndWhatToSet(t *testing.T) {
	s := Scale{Partitions: []int{1 << 30}}
	_, tooMany := s.plan(results.Machine{})
	require.Regexp(t,
		`^1073741824 partitions do not fit: .* is \d+: raise it with (ulimit -n|sysctl vm.max_map_count=)`, tooMany)
	s = Scale{Partitions: []int{1, 2}}
	counts, tooMany := s.plan(results.Machine{})
	require.Equal(t, []int{1, 2}, counts)
	require.Empty(t, tooMany)
}

func TestScaleRecordsAreChecked(t *testing.T) {
	record := scaleRecord(7, 1, 5*time.Second)
	require.Len(t, record, scaleRecordSize)
	asked, err := checkScaleRecord(record, 7, 1)
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, asked)
	spoilt := slices.Clone(record)
	spoilt[scaleRecordSize-1]++
	for name, err := range map[string]error{
		"another partition": second(checkScaleRecord(record, 8, 1)),
		"another turn":      second(checkScaleRecord(record, 7, 0)),
		"flipped byte":      second(checkScaleRecord(spoilt, 7, 1)),
		"short record":      second(checkScaleRecord(record[:99], 7, 1)),
	} {
		require.ErrorIs(t, err, ErrContent, name)
	}
}

func second(_ time.Duration, err error) error { return err }

func TestDaemonThatKeepsDescriptorsHasALeak(t *testing.T) {
	w := newScaleWatch(t.Context(), os.Getpid(), time.Second, nil)
	w.patience = time.Millisecond
	r := results.Round{}
	require.NoError(t, w.awaitBaseline(r))
	require.Positive(t, r[results.DaemonMemoryAfter])

	_, c := daemonWithin(t)
	e := Exchange{Name: newExchangeName(), Producers: 1, Consumers: 1, local: c}
	partition, err := e.create(t.Context(), c, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, partition.Close()) }()
	err = w.awaitBaseline(r)
	require.ErrorIs(t, err, ErrLeak)
	require.ErrorContains(t, err, " descriptors, 2 shared objects and ")
}

func TestScaleOfADaemonThatCannotBeLookedAtMeasuresTheRest(t *testing.T) {
	w := newScaleWatch(t.Context(), 0, time.Millisecond, nil)
	require.NoError(t, w.Begin(results.Settings{}, []Process{{0, Daemon}, {os.Getpid(), Producer}}))
	require.NoError(t, w.Stop())
	r, err := w.End(1)
	require.NoError(t, err)
	require.Positive(t, r[results.WorkerMemory])
	require.Positive(t, r[results.WorkerThreads])
	require.Contains(t, r, results.WorkerIdleCores)
	require.NotContains(t, r, results.DaemonIdleCores)
	require.NotContains(t, r, results.SharedMemory)
	require.NoError(t, w.awaitBaseline(r))
}

func TestIdleTimeEndsWithTheRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	w := newScaleWatch(ctx, os.Getpid(), time.Hour, nil)
	require.ErrorIs(t, w.Begin(results.Settings{}, nil), stopped)
}
