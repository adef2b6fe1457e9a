package main

import (
	"context"

	"github.com/spf13/cobra"

	"shuffled/client"
	"shuffled/shuffle"
)

// releaseCommand is the command release.
func releaseCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "release ID|NAME [flags]", Short: "Release a partition, whatever holds it", GroupID: operatorGroup,
		Args: oneArgument("needs the ID or the name of a partition; 'shuffled list' shows them"),
		Long: `Releases a partition, whatever holds it, and gives its memory back: its consumers and
its producer get an error that says so, and a second later the memory is taken away
also from processes that hang. It works for a partition that has ended and is still
listed since somebody has it. Root and the daemon's own user may release every
partition, others their own.

Exit code: 0 success, 1 there is no such partition, it is another user's, or the
daemon is not running, 2 bad command line.`,
		Example: `  shuffled release 7f9c2ba4e88f827d616045507605853e
  shuffled release map-17`,
	}
	return onPartition(p, c, func(ctx context.Context, c *client.Client, _ *operatorOptions,
		info *shuffle.PartitionInfo) error {
		return c.Withdraw(ctx, info.ID, info.Producer.UID)
	})
}
