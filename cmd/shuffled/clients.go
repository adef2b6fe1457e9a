package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"shuffled/client"
	"shuffled/internal/cli"
)

// clientsCommand is the command clients.
func clientsCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "clients [flags]", Short: "Show the clients of a running daemon", GroupID: operatorGroup,
		Args: cli.NoArguments,
		Long: `Shows the clients of a running daemon: all of them for root and for the daemon's own
user, those of the same user for others. This command is among them. It gets in also
when there is no connection left, for root and the daemon's own user.

Columns: CLIENT, which kick takes; UID and PID; SINCE when it is connected and IDLE,
how long it has sent nothing; PARTITIONS it produces, GATES and INPUTS it reads by;
UNSENT messages, and bytes, that wait since it does not read; descriptors (FDS) and
BYTES-UNDER-WAY that it has not received; NAME.

Exit code: 0 success, 1 the daemon is not running or refused, 2 bad command line.`,
		Example: `  shuffled clients
  shuffled clients -o json | jq '.[] | select(.unsent_messages > 0) | .process.pid'`,
	}
	return listRows(p, c, (*client.Client).Clients, newClientJSON, writeClientTable)
}

// clientJSON is a client as programs see it. Fields are only ever added.
type clientJSON struct {
	ID                  uint64      `json:"id"`
	Name                string      `json:"name"`
	Process             processJSON `json:"process"`
	Connected           time.Time   `json:"connected"`
	IdleSec             float64     `json:"idle_seconds"`
	Greeted             bool        `json:"greeted"`
	Partitions          int         `json:"partitions"`
	Gates               int         `json:"gates"`
	Inputs              int         `json:"inputs"`
	UnsentMessages      int         `json:"unsent_messages"`
	UnsentBytes         int64       `json:"unsent_bytes"`
	DescriptorsUnderWay int         `json:"descriptors_under_way"`
	BytesUnderWay       int64       `json:"bytes_under_way"`
}

func newClientJSON(c *client.ClientInfo) clientJSON {
	return clientJSON{
		ID: c.ID, Name: c.Name, Process: processJSON{PID: c.Process.PID, UID: c.Process.UID, GID: c.Process.GID},
		Connected: c.Connected.UTC(), IdleSec: c.Idle.Seconds(), Greeted: c.Greeted,
		Partitions: c.Partitions, Gates: c.Gates, Inputs: c.Inputs, UnsentMessages: c.UnsentMessages,
		UnsentBytes:         c.UnsentBytes,
		DescriptorsUnderWay: c.DescriptorsUnderWay, BytesUnderWay: c.BytesUnderWay,
	}
}

// writeClientTable writes a line for each client. The name is last, since it may
// hold spaces.
func writeClientTable(w io.Writer, clients []client.ClientInfo) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table,
		"CLIENT\tUID\tPID\tSINCE\tIDLE\tPARTITIONS\tGATES\tINPUTS\tUNSENT\tUNSENT-BYTES\tFDS-UNDER-WAY\tBYTES-UNDER-WAY\tNAME")
	for i := range clients {
		c := &clients[i]
		name := displayName(c.Name)
		if !c.Greeted {
			name = "(no hello)"
		}
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n",
			c.ID, c.Process.UID, pidText(c.Process.PID), c.Connected.UTC().Format(time.RFC3339), seconds(c.Idle),
			c.Partitions, c.Gates, c.Inputs, c.UnsentMessages, c.UnsentBytes, c.DescriptorsUnderWay, c.BytesUnderWay,
			name)
	}
	return table.Flush()
}
