package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"shuffled/client"
	"shuffled/internal/foreigntext"
	"shuffled/shuffle"
)

// inspectCommand is the command inspect.
func inspectCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "inspect ID|NAME [flags]", Short: "Show one partition and its subpartitions", GroupID: operatorGroup,
		Args: oneArgument("needs the ID or the name of a partition; 'shuffled list' shows them"),
		Long: `Shows one result partition of a running daemon: that of an ID, of the beginning of
one if no other begins so (4 digits or more), of a NAME, or of the name that its id
was made from. There is a line for each of its subpartitions: STATE (idle before a
consumer came, attached, consumed, or abandoned before its end), buffers and events
PUBLISHED by the producer and RELEASED by the consumer, BYTES, and the consumer: PID,
UID, GATE and CHANNEL.

Exit code: 0 success, 1 there is no such partition or the daemon is not running,
2 bad command line.`,
		Example: `  shuffled inspect 7f9c2ba4e88f827d616045507605853e
  shuffled inspect job-42/map-3 --owner 1000
  shuffled inspect 7f9c2ba4e88f827d616045507605853e -o json`,
	}
	return onPartition(p, c, func(_ context.Context, _ *client.Client, o *operatorOptions,
		info *shuffle.PartitionInfo) error {
		if o.output == "json" {
			return writeJSON(p.stdout, newPartitionJSON(info))
		}
		return writePartition(p.stdout, info)
	})
}

// writePartition writes the fields of a partition, one a line, and a table of its
// subpartitions.
func writePartition(w io.Writer, p *shuffle.PartitionInfo) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	field := func(name, format string, args ...any) { fmt.Fprintf(table, name+":\t"+format+"\n", args...) }
	field("id", "%s", p.ID)
	field("name", "%s", displayName(p.Name))
	field("attempt", "%d", p.Attempt)
	field("type", "%s", p.Type)
	field("state", "%s", p.State)
	if p.Failure != "" {
		field("failure", "%s", foreigntext.Graphic(p.Failure))
	}
	if !p.Ended.IsZero() {
		field("ended", "%s", p.Ended.UTC().Format(time.RFC3339))
	}
	field("created", "%s", p.Created.UTC().Format(time.RFC3339))
	field("producer", "pid %s, uid %d, gid %d", pidText(p.Producer.PID), p.Producer.UID, p.Producer.GID)
	field("attached", "%s", yesNo(p.ProducerAttached))
	field("segments", "%d of a pool of %d (required %d, max %d)", p.SegmentsHeld, p.PoolSize, p.PoolRequired, p.PoolMax)
	field("bytes", "%d", p.BytesOut)
	field("buffers", "%d", p.BuffersOut)
	field("records", "%d", p.Records)
	field("back-pressured", "%s", seconds(p.BackPressured))
	field("wake-ups", "%d", p.WakeUps)
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	table = tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SUBPARTITION\tSTATE\tPUBLISHED\tRELEASED\tBYTES\tPID\tUID\tGATE\tCHANNEL")
	for i := range p.SubpartitionInfo {
		s := &p.SubpartitionInfo[i]
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\t", s.Index, s.State, s.BuffersPublished, s.BuffersReleased, s.BytesOut)
		if isAttached(s) {
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", pidText(s.Consumer.PID), s.Consumer.UID, s.GateID, s.Channel)
		} else {
			fmt.Fprint(table, "-\t-\t-\t-\n")
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if shown := len(p.SubpartitionInfo); shown < p.Subpartitions {
		fmt.Fprintf(w, "(the first %d of %d subpartitions)\n", shown, p.Subpartitions)
	}
	return nil
}
