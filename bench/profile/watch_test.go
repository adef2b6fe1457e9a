package profile

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/bench"
	"shuffled/bench/results"
	"shuffled/internal/bpf"
)

// startCat starts a process that ends with its standard input.
func startCat(t *testing.T) (pid int, end func()) {
	t.Helper()
	command := exec.Command("cat")
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	end = sync.OnceFunc(func() {
		_ = stdin.Close()
		_ = command.Wait()
	})
	t.Cleanup(end)
	return command.Process.Pid, end
}

const patience = time.Minute

func TestAProcessThatEndsIsNotedAndTheOthersGoOn(t *testing.T) {
	first, end := startCat(t)
	second, _ := startCat(t)
	r := &recording{snapshots: []bpf.Counts{socketCounts(1), socketCounts(3)}}
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &endedSource{kernelSource: r.source(), then: func() { cancel(errors.New("seen enough")) }}
	processes := []bench.Process{{PID: first, Role: bench.Producer}, {PID: second, Role: Worker}}
	f, err := watch(ctx, s, processes, patience, end)
	require.ErrorContains(t, err, "seen enough")
	require.Equal(t, "profile", f.Workload)
	require.Equal(t, "seen enough", f.Partial)
	p := f.Results[0].Profile
	require.Equal(t, 68.0, p.Role("producer").Figures[results.SystemCalls])
	require.Equal(t, 64.0, p.Role("worker").Figures[results.SystemCalls], "it has the place of the consumer")
	require.Len(t, p.Notes, 1)
	require.Regexp(t, `^producer \d+ ended after \d+\.\d s$`, p.Notes[0])
	require.Equal(t, []bool{true}, s.watchedSecond, "the other one is still watched")
}

// endedSource calls then when it is told of the end of a process.
type endedSource struct {
	*kernelSource
	then          func()
	watchedSecond []bool
}

func (s *endedSource) forget(p bench.Process) {
	s.kernelSource.forget(p)
	_, gone := s.counter.(*recording).watched[p.PID]
	s.watchedSecond = append(s.watchedSecond, !gone && len(s.counter.(*recording).watched) == 1)
	s.then()
}

func TestWatchingEndsWithTheLastProcess(t *testing.T) {
	pid, end := startCat(t)
	f, err := Watch(t.Context(), Options{NoBPF: true}, []bench.Process{{PID: pid, Role: Worker}}, patience, end)
	require.NoError(t, err)
	require.Empty(t, f.Partial)
	require.Equal(t, results.FromProc, f.Results[0].Profile.Source)
	require.Regexp(t, `^worker \d+ ended after`, f.Results[0].Profile.Notes[0])
}

func TestWatchingEndsWhenTheTimeIsOver(t *testing.T) {
	f, err := Watch(t.Context(), Options{NoBPF: true}, []bench.Process{{PID: os.Getpid(), Role: Worker}},
		time.Nanosecond, func() {})
	require.NoError(t, err)
	require.Empty(t, f.Results[0].Profile.Notes)
	require.Contains(t, f.Results[0].Profile.Role("worker").Figures, results.PageFaults)
}

func TestAProcessThatDoesNotExistIsAnError(t *testing.T) {
	const none = 1 << 30 // above the highest there can be
	_, err := Watch(t.Context(), Options{NoBPF: true}, []bench.Process{{PID: none, Role: Worker}}, time.Second,
		func() {})
	require.ErrorContains(t, err, "there is no process 1073741824: it may have ended")
}

func TestWorkersGetAPlaceThatIsFree(t *testing.T) {
	processes := func(roles ...bench.Role) (all []bench.Process) {
		for i, role := range roles {
			all = append(all, bench.Process{PID: i + 1, Role: role})
		}
		return all
	}
	for _, row := range []struct {
		roles []bench.Role
		want  bpf.Role
	}{
		{[]bench.Role{Worker, Worker}, bpf.Producer},
		{[]bench.Role{Worker, bench.Producer}, bpf.Consumer},
		{[]bench.Role{bench.Consumer, bench.Producer, Worker}, bpf.Daemon},
	} {
		got, err := slots(processes(row.roles...))
		require.NoError(t, err)
		require.Equal(t, row.want, got[Worker])
	}
	_, err := slots(processes(Worker, bench.Consumer, bench.Producer, bench.Daemon))
	require.ErrorContains(t, err, "give all of them one")
	_, err = slots(processes("king"))
	require.ErrorContains(t, err, `process 1 has the unknown role "king"`)
}
