package bench

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressIsALineASecondWhereThereIsNoTerminal(t *testing.T) {
	var out bytes.Buffer
	line := newProgressLine(&out)
	line.show("too early")
	require.Empty(t, out.String())
	line.next = time.Now()
	line.show("one")
	line.show("too early again")
	line.end()
	require.Regexp(t, `^one, \S+\n$`, out.String())
}

func TestProgressRewritesItsLineOnATerminal(t *testing.T) {
	var out bytes.Buffer
	line := newProgressLine(&out)
	line.terminal = true
	line.next = time.Now()
	line.show("one")
	line.next = time.Now()
	line.show("two")
	line.end()
	require.Regexp(t, "^\r\x1b\\[Kone, \\S+\r\x1b\\[Ktwo, \\S+\r\x1b\\[K$", out.String())
}

func TestProgressCanBeLeftOut(t *testing.T) {
	line := newProgressLine(nil)
	line.next = time.Now()
	line.show("nowhere")
	line.end()
}

func TestTerminalLineShowsNothingElsewhere(t *testing.T) {
	var out bytes.Buffer
	line := newTerminalLine(&out)
	line.next = time.Now()
	line.show("nowhere")
	line.end()
	require.Empty(t, out.String())

	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	defer terminal.Close()
	require.Equal(t, terminal, newTerminalLine(terminal).out)
}
