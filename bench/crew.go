package bench

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"time"

	"shuffled/bench/results"
)

// A Launcher says how to start this program as a worker.
type Launcher struct {
	// Path is the program, Args the arguments that make it call RunWorker.
	Path string
	Args []string
	// Stderr gets what workers write to their standard error.
	Stderr io.Writer
}

// A crew is the worker processes of one run. One goroutine uses it.
type crew struct {
	launcher Launcher
	observer Observer         // nil for none
	settings results.Settings // that the observer is told
	daemon   *service         // that the members use, or nil
	cores    []int            // that members are pinned to in turn; nil for none
	members  []*member
	events   chan crewEvent
}

// A member is one worker process.
type member struct {
	name    string
	role    Role
	command *exec.Cmd
	orders  *gob.Encoder
	ready   bool
	worked  bool
	result  *result
	failure *failure
	done    progressReport
	ended   bool
}

// A crewEvent is a report of a member, or its end.
type crewEvent struct {
	member *member
	report report
	ended  bool
	err    error
}

func newCrew(l Launcher) *crew { return &crew{launcher: l, events: make(chan crewEvent)} }

// start starts a worker with a task. Files become its descriptors 3 and up; here
// they stay the caller's. After an error, call abandon.
func (c *crew) start(role Role, index int, t task, files ...*os.File) (err error) {
	name := fmt.Sprintf("%s %d", role, index)
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", name, err)
		}
	}()
	command := exec.Command(c.launcher.Path, c.launcher.Args...)
	command.Stderr = c.launcher.Stderr
	command.ExtraFiles = files
	stdin, err := command.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	begin := command.Start
	if len(c.cores) > 0 {
		core := c.cores[len(c.members)%len(c.cores)]
		begin = func() error { return startOnCore(core, command.Start) }
	}
	if err := begin(); err != nil {
		return err
	}
	m := &member{name: name, role: role, command: command, orders: gob.NewEncoder(stdin)}
	c.members = append(c.members, m)
	go c.listen(m, stdout)
	// A worker that has died already is reported with its exit status by listen.
	_ = m.orders.Encode(job{t})
	return nil
}

// listen passes on what a member reports, and last its end.
func (c *crew) listen(m *member, stdout io.Reader) {
	reports := gob.NewDecoder(stdout)
	for {
		var rep report
		if err := reports.Decode(&rep); err != nil {
			break
		}
		c.events <- crewEvent{member: m, report: rep}
	}
	_, _ = io.Copy(io.Discard, stdout) // do not block a worker that writes something else
	c.events <- crewEvent{member: m, ended: true, err: m.command.Wait()}
}

// consequenceTime is how long the others may go on after a worker failed: what
// they report tells which failure came first.
const consequenceTime = 300 * time.Millisecond

// wait has the members begin when all are ready and report when all have done
// their work, and returns their results in the order they were started. When one
// fails or ctx ends, it kills all. When it returns, all have ended. Meanwhile it
// calls display regularly, unless that is nil.
func (c *crew) wait(ctx context.Context, display func()) ([]result, error) {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	var failed <-chan time.Time
	cancelled := ctx.Done()
	for c.living() > 0 {
		select {
		case e := <-c.events:
			if c.note(e); c.anyFailed() && failed == nil {
				failed = time.After(consequenceTime)
			}
			if e.report.Ready && c.allReady() {
				if err := c.begin(); err != nil {
					c.abandon()
					return nil, err
				}
			}
			if e.report.Worked && c.allWorked() {
				if err := c.finish(); err != nil {
					c.abandon()
					return nil, err
				}
			}
		case <-ticker.C:
			if display != nil {
				display()
			}
		case <-failed:
			c.kill()
		case <-cancelled:
			cancelled = nil
			c.kill()
		}
	}
	if err := ctx.Err(); err != nil && c.anyFailed() {
		return nil, context.Cause(ctx)
	}
	if err := c.failure(); err != nil {
		return nil, err
	}
	var results []result
	for _, m := range c.members {
		results = append(results, *m.result)
	}
	return results, nil
}

// abandon kills all members and returns when they have ended.
func (c *crew) abandon() {
	c.kill()
	for c.living() > 0 {
		c.note(<-c.events)
	}
}

func (c *crew) note(e crewEvent) {
	m := e.member
	switch rep := e.report; {
	case e.ended:
		m.ended = true
		if m.result == nil && m.failure == nil {
			how := "exit status 0"
			if e.err != nil {
				how = e.err.Error()
			}
			m.failure = &failure{Text: fmt.Sprintf("process %d ended without a result: %s", m.command.Process.Pid, how)}
		}
	case rep.Ready:
		m.ready = true
	case rep.Worked:
		m.worked = true
	case rep.Progress != nil:
		m.done = *rep.Progress
	case rep.Result != nil:
		m.result = rep.Result
	case rep.Failure != nil:
		m.failure = rep.Failure
	}
}

func (c *crew) living() (n int) {
	for _, m := range c.members {
		if !m.ended {
			n++
		}
	}
	return n
}

// processorTime returns the processor time of all members that have ended.
func (c *crew) processorTime() (cpu time.Duration) {
	for _, m := range c.members {
		if m.ended {
			cpu += m.command.ProcessState.UserTime() + m.command.ProcessState.SystemTime()
		}
	}
	return cpu
}

func (c *crew) allReady() bool {
	for _, m := range c.members {
		if !m.ready {
			return false
		}
	}
	return true
}

func (c *crew) allWorked() bool {
	for _, m := range c.members {
		if !m.worked {
			return false
		}
	}
	return true
}

func (c *crew) anyFailed() bool {
	for _, m := range c.members {
		if m.failure != nil {
			return true
		}
	}
	return false
}

// begin tells all members. One that has died is found by its end.
func (c *crew) begin() error {
	if c.observer != nil {
		if err := c.observer.Begin(c.settings, c.processes()); err != nil {
			return fmt.Errorf("observe workers: %w", err)
		}
	}
	c.order()
	return nil
}

// finish has all members report and end.
func (c *crew) finish() error {
	if c.observer != nil {
		if err := c.observer.Stop(); err != nil {
			return fmt.Errorf("observe workers: %w", err)
		}
	}
	c.order()
	return nil
}

// order has all members go on.
func (c *crew) order() {
	for _, m := range c.members {
		_ = m.orders.Encode(true)
	}
}

// observed adds to a round what the observer saw of it.
func (c *crew) observed(r results.Round, payload int64) error {
	if c.observer == nil {
		return nil
	}
	seen, err := c.observer.End(payload)
	if err != nil {
		return fmt.Errorf("observe workers: %w", err)
	}
	maps.Copy(r, seen)
	return nil
}

func (c *crew) processes() (all []Process) {
	if c.daemon != nil {
		all = append(all, Process{c.daemon.pid, Daemon})
	}
	for _, m := range c.members {
		all = append(all, Process{m.command.Process.Pid, m.role})
	}
	return all
}

// kill ends all members. What they report after it is no failure of theirs, but
// theirs are settled before.
func (c *crew) kill() {
	for _, m := range c.members {
		if !m.ended {
			if m.failure == nil && m.result == nil {
				m.failure = &failure{Text: "stopped", Consequence: true}
			}
			_ = m.command.Process.Kill() // it may have ended just now
		}
	}
}

// failure returns the failure that the others followed from.
func (c *crew) failure() error {
	for _, consequence := range []bool{false, true} {
		for _, m := range c.members {
			if m.failure != nil && m.failure.Consequence == consequence {
				return fmt.Errorf("%s: %w", m.name, errors.New(m.failure.Text))
			}
		}
	}
	return nil
}
