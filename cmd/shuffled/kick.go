package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"shuffled/client"
	"shuffled/internal/cli"
)

// kickCommand is the command kick.
func kickCommand(p process) *cobra.Command {
	o := newOperatorOptions()
	c := &cobra.Command{
		Use: "kick CLIENT [flags]", Short: "End the connection of a client", GroupID: operatorGroup,
		Args: oneArgument("needs the number of a client; 'shuffled clients' shows them"),
		Long: `Ends the connection of a client. Everything that it had is given up as if it had
died: its unfinished partitions are lost, its gates are closed. Root and the daemon's
own user may kick every client, others their own.

Exit code: 0 success, 1 there is no such client or the daemon is not running, 2 bad
command line.`,
		Example: `  shuffled kick 17`,
	}
	return p.command(c, o.settings(), func(args []string) error {
		id, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil || id == 0 {
			return cli.Usagef("client %q: want a number; 'shuffled clients' shows them", args[0])
		}
		return o.ask(func(ctx context.Context, c *client.Client) error { return c.Kick(ctx, id) })
	})
}
