package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench"
	"shuffled/bench/results"
)

// writeProc makes the files of a process with two threads whose counts are those
// of n MiB in pieces of 32 KiB.
func writeProc(t *testing.T, folder string, pid, n int) {
	t.Helper()
	write := func(name, text string) {
		path := filepath.Join(folder, strconv.Itoa(pid), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("io", fmt.Sprintf("rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\nread_bytes: 5\n", n<<20, 2*n<<20, 32*n, 64*n))
	write("stat", fmt.Sprintf("%d (a name) with 7 (words) S 1 %d %d 0 -1 4194304 %d 99 %d 99 1 2\n", pid, pid, pid,
		10*n, n))
	for thread, factor := range map[int]int{pid: 1, pid + 1: 2} {
		write(fmt.Sprintf("task/%d/status", thread),
			fmt.Sprintf("Name:\tx\nThreads:\t2\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n",
				factor*n, factor*n*10))
	}
}

func TestFilesOfProcTellFewerFigures(t *testing.T) {
	folder := t.TempDir()
	writeProc(t, folder, producerPID, 7)
	writeProc(t, folder, consumerPID, 100)
	s := newProcSource(folder, "not root")
	require.NoError(t, s.begin(pair))
	writeProc(t, folder, producerPID, 10)
	writeProc(t, folder, consumerPID, 105)
	p, err := s.end()
	require.NoError(t, err)
	require.Equal(t, results.FromProc, p.Source)
	for role, n := range map[string]float64{"producer": 3, "consumer": 5} {
		require.Equal(t, results.Figures{
			results.CopiedToUser: n * (1 << 20), results.CopiedFromUser: 2 * n * (1 << 20),
			results.ReadWriteCalls:    96 * n,
			results.VoluntarySwitches: 3 * n, results.InvoluntarySwitches: 30 * n, results.PageFaults: 11 * n,
			results.MajorFaults: n,
		}, p.Role(role).Figures, role)
	}
	require.Len(t, p.Missing, 1)
	require.Contains(t, p.Missing[0].What, "system calls")
	require.Equal(t, "not root", p.Missing[0].Why)
	p.PayloadBytes = 10 << 20
	require.Equal(t, results.Round{results.CopiedPerByte: 2.4}, perByte(p), "calls and wake-ups are not known")
}

func TestAProcessThatEndsKeepsItsLastCounts(t *testing.T) {
	folder := t.TempDir()
	writeProc(t, folder, producerPID, 1)
	s := newProcSource(folder, "")
	require.NoError(t, s.begin(pair[:1]))
	writeProc(t, folder, producerPID, 5)
	s.look()
	require.NoError(t, os.RemoveAll(filepath.Join(folder, strconv.Itoa(producerPID))))
	s.look()
	s.forget(pair[0])
	writeProc(t, folder, producerPID, 1000) // another process with its number
	s.look()
	p, err := s.end()
	require.NoError(t, err)
	require.Equal(t, 4.0*(1<<20), p.Role("producer").Figures[results.CopiedToUser])
	require.Equal(t, 12.0, p.Role("producer").Figures[results.VoluntarySwitches])
}

func TestFiguresOfFilesThatCannotBeReadAreAbsent(t *testing.T) {
	folder := t.TempDir()
	writeProc(t, folder, producerPID, 1)
	writeProc(t, folder, consumerPID, 1)
	require.NoError(t, os.Remove(filepath.Join(folder, strconv.Itoa(consumerPID), "io")))
	require.NoError(t, os.WriteFile(filepath.Join(folder, strconv.Itoa(consumerPID), "stat"), []byte("102 (x) S 1 2"),
		0o644))
	s := newProcSource(folder, "")
	both := []bench.Process{pair[0], {PID: consumerPID, Role: bench.Producer}}
	require.NoError(t, s.begin(both))
	p, err := s.end()
	require.NoError(t, err)
	require.Equal(t, 2, p.Role("producer").Processes)
	require.Equal(t, results.Figures{results.VoluntarySwitches: 0, results.InvoluntarySwitches: 0},
		p.Role("producer").Figures,
		"what one of the two does not tell is not known of both")
	require.Contains(t, p.Missing, results.Missing{
		What: "copied_from_user_bytes, copied_to_user_bytes, major_faults, page_faults, read_write_calls of the producer", Why: "what /proc says of it cannot be read: another user's process, or it ended at once",
	})
}

func TestADaemonWhoseProcessIsNotKnownIsNoted(t *testing.T) {
	s := newProcSource(t.TempDir(), "")
	require.NoError(t, s.begin(append([]bench.Process{{Role: bench.Daemon}}, pair...)))
	p, err := s.end()
	require.NoError(t, err)
	require.Nil(t, p.Role("daemon"))
	require.Equal(t, []string{"the daemon was not observed: its process is not known"}, p.Notes)
}

func TestTheFilesOfThisKernelAreAsExpected(t *testing.T) {
	s := newProcSource(procFolder, "")
	require.NoError(t, s.begin([]bench.Process{{PID: os.Getpid(), Role: Worker}}))
	before := s.all[0].before.process[results.CopiedFromUser]
	require.NoError(t, os.WriteFile(filepath.Join(t.TempDir(), "file"), make([]byte, 123456), 0o644))
	p, err := s.end()
	require.NoError(t, err)
	figures := p.Role("worker").Figures
	for figure := range procFigures {
		require.Contains(t, figures, figure)
	}
	require.Positive(t, before)
	require.GreaterOrEqual(t, figures[results.CopiedFromUser], 123456.0)
	require.Positive(t, figures[results.ReadWriteCalls])
	require.Len(t, p.Missing, 1)
}
