// Package examples has jobs for users to read; its tests build them in a module of their
// own, as a user would, and run them against a daemon.
package examples

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/daemontest"
	"shuffled/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m, removePrograms) }

var built string // the folder of what was built, "" before

func removePrograms() {
	if built != "" {
		_ = os.RemoveAll(built)
	}
}

// programs are the folder of the examples' programs and of shuffled. The former were built
// in a module of their own.
var programs = sync.OnceValues(func() (folder string, err error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "examples-")
	if err != nil {
		return "", err
	}
	built = dir
	module, folder := filepath.Join(dir, "module"), filepath.Join(dir, "bin")
	if err := os.CopyFS(module, os.DirFS(".")); err != nil {
		return "", err
	}
	if err := os.Remove(filepath.Join(module, "examples_test.go")); err != nil {
		return "", err
	}
	mod := "module job\n\nrequire shuffled v0.0.0\n\nreplace shuffled => " + root + "\n" // as the README says
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte(mod), 0o644); err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum")) // in place of go mod tidy, which needs the network
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(module, "go.sum"), sums, 0o644); err != nil {
		return "", err
	}
	run := func(in string, args ...string) error {
		command := exec.Command("go", args...)
		command.Dir = in
		command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v in %s: %w\n%s", command.Args, in, err, out)
		}
		return nil
	}
	if err := run(module, "build", "-o", folder+"/", "./..."); err != nil {
		return "", err
	}
	return folder, run(root, "build", "-o", folder+"/", "./cmd/shuffled")
})

// A job is programs that run beside a daemon.
type job struct {
	t      *testing.T
	folder string
	socket string
}

func newJob(t *testing.T) *job {
	t.Helper()
	folder, err := programs()
	require.NoError(t, err)
	d := daemontest.Start(t, daemontest.Options{Program: filepath.Join(folder, "shuffled")})
	return &job{t: t, folder: folder, socket: d.Socket}
}

// A process is one that was started.
type process struct {
	*exec.Cmd
	out, errors bytes.Buffer
}

// start starts a program with the arguments in line.
func (j *job) start(input io.Reader, line string) *process {
	j.t.Helper()
	args := strings.Fields(line)
	p := &process{Cmd: exec.Command(filepath.Join(j.folder, args[0]), args[1:]...)}
	p.Env = daemontest.Environ("SHUFFLED_SOCKET=" + j.socket)
	p.Stdin, p.Stdout, p.Stderr = input, &p.out, &p.errors
	p.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	require.NoError(j.t, p.Start())
	return p
}

// run starts programs together and returns what they have printed, in their order.
func (j *job) run(lines ...string) []string {
	j.t.Helper()
	var started []*process
	for _, line := range lines {
		started = append(started, j.start(nil, line))
	}
	var out []string
	for i, p := range started {
		require.NoError(j.t, p.Wait(), "%s: %s", lines[i], p.errors.String())
		out = append(out, p.out.String())
	}
	return out
}

// writeText writes a file of random words and counts them.
func writeText(t *testing.T, counts map[string]int, seed uint64) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "text")
	random := rand.New(rand.NewPCG(seed, 0))
	var text bytes.Buffer
	for range 20_000 {
		word := fmt.Sprint("w", random.IntN(500))
		counts[word]++
		fmt.Fprintln(&text, word)
	}
	require.NoError(t, os.WriteFile(name, text.Bytes(), 0o600))
	return name
}

func TestWordCount(t *testing.T) {
	want := map[string]int{}
	first, second := writeText(t, want, 1), writeText(t, want, 2)
	out := newJob(t).run("count 0 2", "split 0 2 "+first, "split 1 2 "+second, "count 1 2")
	got := map[string]int{}
	for _, text := range []string{out[0], out[3]} {
		require.NotEmpty(t, text)
		for line := range strings.Lines(text) {
			var n int
			var word string
			_, err := fmt.Sscan(line, &n, &word)
			require.NoError(t, err)
			require.Zero(t, got[word], "%q is counted by one task", word)
			got[word] = n
		}
	}
	require.Equal(t, want, got)
}

// A map task that is killed ends the counters with an error and without a count.
func TestWordCountOfAKilledTaskIsNoCount(t *testing.T) {
	j := newJob(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	counter, splitter := j.start(nil, "count 0 1"), j.start(nil, "split 0 1 "+fifo)
	words, err := os.OpenFile(fifo, os.O_WRONLY, 0) // it is about to read, so its partition is there
	require.NoError(t, err)
	_, err = words.WriteString(strings.Repeat("some words of a text that goes on\n", 1<<15))
	require.NoError(t, err) // what a pipe does not hold of it has been read, so words were sent
	require.NoError(t, splitter.Process.Kill())
	require.Error(t, splitter.Wait())
	require.NoError(t, words.Close())
	require.Error(t, counter.Wait())
	require.Equal(t, 1, counter.ProcessState.ExitCode())
	require.Contains(t, counter.errors.String(), "producer lost")
	require.Empty(t, counter.out.String())
}

// A map task that cannot read its text fails its partition, and the counters say why.
func TestWordCountOfAMissingFileIsNoCount(t *testing.T) {
	j := newJob(t)
	counter, splitter := j.start(nil, "count 0 1"), j.start(nil, "split 0 1 /nowhere/text")
	_ = splitter.Wait()
	require.Error(t, counter.Wait())
	require.Contains(t, counter.errors.String(), "no such file")
	require.Empty(t, counter.out.String())
}

func TestSort(t *testing.T) {
	const tasks, keys = 4, 5000
	var lines []string
	for i := range tasks {
		lines = append(lines, fmt.Sprint("sort ", i, " ", tasks))
	}
	var want []string
	for i := range tasks {
		lines = append(lines, fmt.Sprint("generate ", i, " ", tasks, " ", keys))
		random := rand.New(rand.NewPCG(uint64(i), 0))
		for range keys {
			want = append(want, fmt.Sprintf("%016x", random.Uint64()))
		}
	}
	slices.Sort(want)
	out := newJob(t).run(lines...)
	for i := range tasks {
		require.NotEmpty(t, out[i], "each task has a part of the range")
	}
	require.Equal(t, want, strings.Fields(strings.Join(out[:tasks], "")))
}

func TestJoin(t *testing.T) {
	const customers, orders = 100, 10_000
	want := map[string]int{}
	for i := range orders {
		want[fmt.Sprint("customer ", i%customers)] += i
	}
	out := newJob(t).run("join 0", "join 1", fmt.Sprint("orders 2 ", orders, " ", customers),
		fmt.Sprint("customers 2 ", customers))
	got := map[string]int{}
	for _, text := range out[:2] {
		require.NotEmpty(t, text)
		for line := range strings.Lines(text) {
			name, cents, ok := strings.Cut(strings.TrimSpace(line), ": ")
			require.True(t, ok, line)
			var n int
			_, err := fmt.Sscan(cents, &n)
			require.NoError(t, err)
			got[name] = n
		}
	}
	require.Equal(t, want, got)
}

func TestBroadcast(t *testing.T) {
	j := newJob(t)
	var workers []*process
	for i := range 3 {
		workers = append(workers, j.start(strings.NewReader("fr\nde\nxx\n"), fmt.Sprint("enrich ", i)))
	}
	j.run("table 3 de=Germany fr=France")
	for _, w := range workers {
		require.NoError(t, w.Wait(), w.errors.String())
		require.Equal(t, []string{"fr France", "de Germany", "xx "}, readLines(t, &w.out))
	}
}

func readLines(t *testing.T, r io.Reader) (lines []string) {
	t.Helper()
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	require.NoError(t, scanner.Err())
	return lines
}
