package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"shuffled/client"
	"shuffled/internal/foreigntext"
)

// operatorOptions are what the commands that ask a running daemon take.
type operatorOptions struct {
	socket string
	output string
}

// operatorTimeout is how long the daemon may take to answer.
const operatorTimeout = 10 * time.Second

func newOperatorOptions() *operatorOptions {
	return &operatorOptions{socket: defaultSocket, output: "table"}
}

func (o *operatorOptions) settings() settings {
	socket := socketSetting(&o.socket, "Socket of the daemon.")
	socket.group = "Flags"
	return settings{
		socket,
		{name: "output", short: "o", group: "Flags", arg: "FORMAT",
			value: choiceValue{&o.output, []string{"table", "json"}}, flagOnly: true,
			help: "table, for people, or json, for programs. Columns and fields only ever get more."},
	}
}

// dial connects to the daemon.
func (o *operatorOptions) dial(ctx context.Context) (*client.Client, error) {
	c, err := client.Dial(ctx, client.WithSocket(o.socket), client.WithName("shuffled"), client.WithOperator())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, fmt.Errorf("the daemon is not running: %w", err)
	}
	return c, err
}

// ask connects and calls f with a limited time.
func (o *operatorOptions) ask(f func(ctx context.Context, c *client.Client) error) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), operatorTimeout,
		fmt.Errorf("the daemon did not answer within %v", operatorTimeout))
	defer cancel()
	c, err := o.dial(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(ctx, c), c.Close())
}

// writeJSON writes a value for programs, and in a way that is fit for a terminal too:
// what is not graphic is escaped, also beyond ASCII.
func writeJSON(w io.Writer, v any) error {
	encoded, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(escapeJSON(encoded), '\n'))
	return err
}

// escapeJSON escapes what is not graphic, in the way of JSON.
func escapeJSON(encoded []byte) []byte {
	var text bytes.Buffer
	for _, r := range string(encoded) { // beyond ASCII, all of it lies in strings
		if r == '\n' || strconv.IsGraphic(r) {
			text.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&text, `\u%04x`, unit)
		}
	}
	return text.Bytes()
}

// displayName makes a name that some user chose fit for a terminal: one that is
// empty is a dash, one with anything but plain graphic characters is quoted.
func displayName(name string) string {
	if name == "" {
		return "-"
	}
	for _, r := range name {
		if r == ' ' || r == '"' || r == '-' && len(name) == 1 || !strconv.IsGraphic(r) {
			return strconv.QuoteToGraphic(name)
		}
	}
	return name
}

// pidText shows a pid; 0 is one that this pid namespace does not have.
func pidText(pid int32) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(int(pid))
}

// displayError makes the text of an error fit for a terminal: it may hold what some
// user chose, such as the cause of a failure. Lines stay lines, but cannot be taken
// for the program's own.
func displayError(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = foreigntext.Graphic(line)
	}
	return strings.Join(lines, "\n  ")
}
