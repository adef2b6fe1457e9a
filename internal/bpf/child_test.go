package bpf

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/memseg"
)

// childVariable names the part that this test binary plays when a test has
// started it again as another process.
const childVariable = "SHUFFLED_BPF_CHILD"

// A part is played by a child. It prepares, says so by begin, which returns when
// it is to go on, and does what is counted, all on one thread. It must not do
// what is counted outside of that.
type part func(s *stage) error

// parts are set by the tests that they belong to.
var parts = map[string]part{}

// The words of the memory that the children of a test share.
const (
	wordBegin  = 0 // what the test lets happen: curtainUp, curtainDown
	wordFutex  = 64
	wordGift   = 128 // what a child tells its test
	wordRound  = 192
	wordReady  = 256 // what a child has reached; one word each
	wordsTaken = 4096

	curtainUp, curtainDown = 1, 2
)

// A stage is what a child plays on.
type stage struct {
	shared *memseg.Region
	child  int
	begun  bool
}

// begin says that everything is prepared and returns when the counting has begun.
// It spins: whatever else waits is counted.
func (s *stage) begin() {
	s.begun = true
	s.reach(curtainUp)
	for word := s.shared.Word(wordBegin); word.Load() < curtainUp; {
	}
}

func (s *stage) reach(state uint64) { s.shared.Word(wordReady + 8*s.child).Store(state) }

func (s *stage) futex() *memseg.Word32 { return s.shared.Word32(wordFutex) }

func playPart(name string) error {
	runtime.LockOSThread()
	// Whoever still spins when its test has died ends.
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 10, Max: 10}); err != nil {
		return err
	}
	var child int
	if _, err := fmt.Sscanf(name, "%d %s", &child, &name); err != nil {
		return err
	}
	memfd, err := memseg.ReceiveMemfd(3, wordsTaken, "stage")
	if err != nil {
		return err
	}
	shared, err := memfd.Map(memseg.ReadWrite, 0)
	if err != nil {
		return err
	}
	s := &stage{shared: shared, child: child}
	if err := parts[name](s); err != nil {
		return err
	}
	if !s.begun {
		return fmt.Errorf("the part has not begun")
	}
	s.reach(curtainDown)
	for shared.Word(wordBegin).Load() < curtainDown {
		request := unix.NsecToTimespec(int64(time.Millisecond))
		_ = unix.Nanosleep(&request, nil)
	}
	return nil
}

// A play has a process for each part.
type play struct {
	t        *testing.T
	shared   *memseg.Region
	children []*exec.Cmd
	ended    []chan error
}

// rehearse starts children and returns when all are prepared.
func rehearse(t *testing.T, names ...string) *play {
	t.Helper()
	memfd, err := memseg.CreateMemfd("bpf-test-stage", wordsTaken)
	require.NoError(t, err)
	shared, err := memfd.Map(memseg.ReadWrite, 0)
	require.NoError(t, err)
	p := &play{t: t, shared: shared}
	t.Cleanup(func() { require.NoError(t, shared.Close()) })
	fd, err := memfd.HandOut()
	require.NoError(t, err)
	stageFile := os.NewFile(uintptr(fd), "stage")
	defer func() { require.NoError(t, stageFile.Close()) }()
	require.NoError(t, memfd.Close())
	for i, name := range names {
		require.Contains(t, parts, name)
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", childVariable, i, name),
			// Nothing but the part does anything: the runtime looks at its cgroup otherwise.
			"GODEBUG=asyncpreemptoff=1,updatemaxprocs=0", "GOGC=off", "GORACE=atexit_sleep_ms=0")
		cmd.Stderr = os.Stderr
		cmd.ExtraFiles = []*os.File{stageFile}
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		p.children, p.ended = append(p.children, cmd), append(p.ended, ended)
	}
	t.Cleanup(p.end)
	p.awaitAll(curtainUp)
	return p
}

func (p *play) pid(child int) int { return p.children[child].Process.Pid }

// awaitAll waits until all children have reached a state.
func (p *play) awaitAll(state uint64) {
	p.t.Helper()
	for i := range p.children {
		for p.shared.Word(wordReady+8*i).Load() < state {
			select {
			case err := <-p.ended[i]:
				p.ended[i] <- err
				require.FailNow(p.t, "a child ended early", "%v", err)
			default:
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
}

// perform lets the children do what they are to do.
func (p *play) perform() {
	p.t.Helper()
	p.shared.Word(wordBegin).Store(curtainUp)
	p.awaitAll(curtainDown)
}

// end lets the children end.
func (p *play) end() {
	p.shared.Word(wordBegin).Store(curtainDown)
	for i := range p.children {
		if err := <-p.ended[i]; !p.t.Failed() {
			require.NoError(p.t, err)
		}
	}
}
