package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"shuffled/client"
	"shuffled/internal/cli"
	"shuffled/shuffle"
)

// listCommand is the command list.
func listCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "list [flags]", Short: "Show the partitions of a running daemon", GroupID: operatorGroup,
		Args: cli.NoArguments,
		Long: `Shows the result partitions of a running daemon that this user may read: all of
them for root and for the daemon's own user. A partition that has ended is shown
while somebody still has its memory.

Columns: ID and ATTEMPT; TYPE; STATE (created, running, finished, then consumed,
failed, released, expired, lost or fenced); SUBPARTITIONS; SEGMENTS it has and
POOL, how many it may have now; BYTES and BUFFERS handed over; RECORDS by the
producer's count; BACK-PRESSURED, the time it waited for segments; PID and UID of
the producer and whether it is ATTACHED; for a partition that has ended, the pid of
the READER that keeps its memory, and for how long that has stood STILL; NAME.

Exit code: 0 success, 1 the daemon is not running or refused, 2 bad command line.`,
		Example: `  shuffled list
  shuffled list -o json | jq '.[] | select(.state == "running") | .name'`,
	}
	return listRows(p, c, (*client.Client).List, newPartitionJSON, writePartitionTable)
}

// listRows is a command without arguments that shows what a daemon lists, as a table
// or as JSON.
func listRows[Row, Encoded any](p process, c *cobra.Command, list func(*client.Client, context.Context) ([]Row, error),
	encode func(*Row) Encoded, writeTable func(io.Writer, []Row) error,
) *cobra.Command {
	o := newOperatorOptions()
	return p.command(c, o.settings(), func([]string) error {
		return o.ask(func(ctx context.Context, c *client.Client) error {
			rows, err := list(c, ctx)
			if err != nil {
				return err
			}
			if o.output == "json" {
				encoded := []Encoded{} // an empty list is [], not null
				for i := range rows {
					encoded = append(encoded, encode(&rows[i]))
				}
				return writeJSON(p.stdout, encoded)
			}
			return writeTable(p.stdout, rows)
		})
	})
}

// writePartitionTable writes a line for each partition. The name is last, since
// it may hold spaces.
func writePartitionTable(w io.Writer, partitions []shuffle.PartitionInfo) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table,
		"ID\tATTEMPT\tTYPE\tSTATE\tSUBPARTITIONS\tSEGMENTS\tPOOL\tBYTES\tBUFFERS\tRECORDS\tBACK-PRESSURED\tPID\tUID\tATTACHED\tREADER\tSTILL\tNAME")
	for i := range partitions {
		p := &partitions[i]
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n",
			p.ID, p.Attempt, p.Type, p.State, p.Subpartitions, p.SegmentsHeld, p.PoolSize, p.BytesOut, p.BuffersOut,
			p.Records,
			seconds(p.BackPressured), pidText(p.Producer.PID), p.Producer.UID, yesNo(p.ProducerAttached), keeperText(p),
			stillText(p), displayName(p.Name))
	}
	return table.Flush()
}

// keeperText names the reader that keeps the memory of an ended partition.
func keeperText(p *shuffle.PartitionInfo) string {
	if p.Readers == 0 {
		return "-"
	}
	return pidText(p.Keeper.PID)
}

// stillText says for how long that reader has released nothing.
func stillText(p *shuffle.PartitionInfo) string {
	if p.Readers == 0 {
		return "-"
	}
	return seconds(max(0, time.Since(p.StillSince)))
}

// seconds shows a time in one unit, so that a column sorts.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
