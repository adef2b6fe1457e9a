package main

import (
	"context"
	"fmt"
	"io"

	"shuffled/client"
	"shuffled/shuffle"
)

// runRelease is the command release.
func runRelease(p process) error {
	return onPartition(p, func(ctx context.Context, c *client.Client, _ *operatorOptions, info *shuffle.PartitionInfo) error {
		return c.Withdraw(ctx, info.ID, info.Producer.UID)
	})
}

func helpRelease(w io.Writer) {
	fmt.Fprint(w, `Usage: shuffled release ID|NAME [flags]

Releases a partition, whatever holds it, and gives its memory back: its consumers and
its producer get an error that says so, and a second later the memory is taken away
also from processes that hang. It works for a partition that has ended and is still
listed since somebody has it. Root and the daemon's own user may release every
partition, others their own.
`)
	append(newOperatorOptions().settings(), (&partitionArgument{}).setting()).printHelp(w)
	fmt.Fprint(w, `
Examples:
  shuffled release 7f9c2ba4e88f827d616045507605853e
  shuffled release map-17

Exit code: 0 success, 1 there is no such partition, it is another user's, or the
daemon is not running, 2 bad command line.
`)
}
