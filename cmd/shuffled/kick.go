package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"shuffled/client"
)

// runKick is the command kick.
func runKick(p process) error {
	o := newOperatorOptions()
	rest, err := o.settings().load(p.args, p.environ)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usagef("needs the number of a client; 'shuffled clients' shows them")
	}
	if err := noArguments(rest[1:]); err != nil {
		return err
	}
	id, err := strconv.ParseUint(rest[0], 10, 64)
	if err != nil || id == 0 {
		return usagef("client %q: want a number; 'shuffled clients' shows them", rest[0])
	}
	return o.ask(func(ctx context.Context, c *client.Client) error { return c.Kick(ctx, id) })
}

func helpKick(w io.Writer) {
	fmt.Fprint(w, `Usage: shuffled kick CLIENT [flags]

Ends the connection of a client. Everything that it had is given up as if it had
died: its unfinished partitions are lost, its gates are closed. Root and the daemon's
own user may kick every client, others their own.
`)
	newOperatorOptions().settings().printHelp(w)
	fmt.Fprint(w, `
Examples:
  shuffled kick 17

Exit code: 0 success, 1 there is no such client or the daemon is not running, 2 bad
command line.
`)
}
