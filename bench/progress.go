package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A progressLine shows how far a run is: on a terminal one line that is
// rewritten, elsewhere a line a second. One goroutine uses it.
type progressLine struct {
	out      io.Writer
	terminal bool
	start    time.Time
	next     time.Time
	shown    bool
}

// newProgressLine returns a line on out, which may be nil for none.
func newProgressLine(out io.Writer) *progressLine {
	now := time.Now()
	p := &progressLine{out: out, terminal: isTerminal(out), start: now, next: now}
	if !p.terminal {
		p.next = now.Add(time.Second)
	}
	return p
}

// newTerminalLine returns a line on out if that is a terminal, else one that shows
// nothing.
func newTerminalLine(out io.Writer) *progressLine {
	if !isTerminal(out) {
		out = nil
	}
	return newProgressLine(out)
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// show displays the text with the time passed, if it is time for it.
func (p *progressLine) show(text string) {
	now := time.Now()
	if p.out == nil || now.Before(p.next) {
		return
	}
	passed := now.Sub(p.start).Round(100 * time.Millisecond)
	if p.terminal {
		p.next, p.shown = now.Add(progressInterval), true
		fmt.Fprintf(p.out, "\r\x1b[K%s, %v", text, passed)
		return
	}
	p.next = now.Add(time.Second)
	fmt.Fprintf(p.out, "%s, %v\n", text, passed)
}

// end takes the line away.
func (p *progressLine) end() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
