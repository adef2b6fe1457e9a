package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/client"
	"shuffled/internal/test/daemontest"
	"shuffled/shuffle"
	"shuffled/writer"
)

// clientNamed returns the row of a client, nil if there is none.
func clientNamed(t *testing.T, d *daemontest.Daemon, name string) *clientJSON {
	t.Helper()
	var rows []clientJSON
	require.NoError(t, json.Unmarshal([]byte(operate(t, d, "clients", "-o", "json")), &rows))
	for i := range rows {
		if rows[i].Name == name {
			return &rows[i]
		}
	}
	return nil
}

func TestClientsAreShownWithWhatTheyHave(t *testing.T) {
	d := start(t)
	c, err := client.Dial(testContext(t), client.WithSocket(d.Socket), client.WithName("map\x1b 1"))
	require.NoError(t, err)
	defer c.Close()
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	require.NoError(t, err)
	defer p.Close()
	gate := oneInput(t, c, id)
	defer gate.Close()
	var row *clientJSON
	require.Eventually(t, func() bool { // what it is told of the gate is sent
		row = clientNamed(t, d, "map\x1b 1")
		return row != nil && row.UnsentMessages == 0
	}, daemontest.Patience, time.Millisecond)
	require.Equal(t, clientJSON{
		ID: row.ID, Name: "map\x1b 1", Process: processJSON{PID: int32(os.Getpid()), UID: uint32(os.Geteuid()),
			GID: uint32(os.Getegid())},
		Connected: row.Connected, IdleSec: row.IdleSec, Greeted: true, Partitions: 1, Gates: 1, Inputs: 1,
		// Whatever is just being sent.
		UnsentMessages: row.UnsentMessages, UnsentBytes: row.UnsentBytes,
		DescriptorsUnderWay: row.DescriptorsUnderWay, BytesUnderWay: row.BytesUnderWay,
	}, *row)
	require.NotNil(t, clientNamed(t, d, "shuffled"), "the command itself")
	text := operate(t, d, "clients")
	require.Contains(t, text, "FDS-UNDER-WAY")
	require.Contains(t, text, `"map\x1b 1"`)
	require.NotContains(t, text, "\x1b")
}

func TestKickedClientLosesWhatItHadAndOthersNothing(t *testing.T) {
	d := start(t)
	c, err := client.Dial(testContext(t), client.WithSocket(d.Socket), client.WithName("victim"))
	require.NoError(t, err)
	defer c.Close()
	other := dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	require.NoError(t, err)
	defer p.Close()
	gate := oneInput(t, other, id)
	defer gate.Close()

	operate(t, d, "kick", strconv.FormatUint(clientNamed(t, d, "victim").ID, 10))
	_, err = gate.Next(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrProducerLost)
	require.ErrorContains(t, err, "kicked by an operator")
	eventually(t, "the client hears why", func() bool {
		_, err := c.List(testContext(t))
		return err != nil && strings.Contains(err.Error(), "kicked by an operator")
	})
	_, err = c.List(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	require.Nil(t, clientNamed(t, d, "victim"))
	_, err = other.List(testContext(t))
	require.NoError(t, err)
}

func TestReleasedPartitionEndsForEverybodyWhoUsesIt(t *testing.T) {
	d := start(t)
	c := dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Name: "stuck", Subpartitions: 1})
	require.NoError(t, err)
	defer p.Close()
	gate := oneInput(t, c, id)
	defer gate.Close()
	w, err := writer.New(p, shuffle.Strings{}, writer.Forward[string]())
	require.NoError(t, err)
	defer w.Close()

	operate(t, d, "release", "stuck")
	_, err = gate.Next(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
	require.ErrorContains(t, err, fmt.Sprintf("by the operator (uid %d", os.Geteuid()))
	eventually(t, "the producer hears of it", func() bool {
		err = w.Emit(testContext(t), "late")
		return err != nil
	})
	require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
	require.Regexp(t, id.String()+" +0 +PIPELINED_BOUNDED +released", operate(t, d, "list"))
}

// A reader that hangs keeps neither a place in the registry nor the memory.
func TestReleaseTakesTheMemoryFromAReaderThatHangs(t *testing.T) {
	d := start(t)
	producer, reader := dial(t, d), dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := producer.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	require.NoError(t, err)
	gate := oneInput(t, reader, id)
	defer gate.Close()
	write(t, p, strings.Repeat("x", 20_000))
	b, err := gate.Next(testContext(t)) // and does not go on
	require.NoError(t, err)
	defer b.Release()
	require.NoError(t, p.Close())
	require.Contains(t, operate(t, d, "list"), id.String())
	require.Positive(t, d.Metrics()[`shuffled_segments{state="granted"}`])

	operate(t, d, "release", id.String())
	eventually(t, "its segments are free again",
		func() bool { return d.Metrics()[`shuffled_segments{state="granted"}`] == 0 })
	require.NotContains(t, operate(t, d, "list"), id.String())
	again, err := producer.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Attempt: 1, Subpartitions: 1})
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// operateAs runs a command as another user.
func operateAs(t *testing.T, uid int, args ...string) (output string, code int) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(self, args...)
	command.Env = daemontest.Environ(asProgram, "TEST_UID="+strconv.Itoa(uid))
	out, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return string(out), command.ProcessState.ExitCode()
}

func TestOtherUsersSeeAndEndTheirOwnOnly(t *testing.T) {
	if isNotRoot() {
		t.Skip("needs root to be another user")
	}
	const uid = 4711
	d := start(t, "--allowed-uids", strconv.Itoa(uid))
	openToAll(t, d.Socket)
	c := dial(t, d)
	readable, hidden := shuffle.NewPartitionID(), shuffle.NewPartitionID()
	for _, spec := range []shuffle.PartitionSpec{
		{ID: readable, Subpartitions: 1, AllowedUIDs: []uint32{uid}}, {ID: hidden, Subpartitions: 1},
	} {
		p, err := c.CreatePartition(testContext(t), spec)
		require.NoError(t, err)
		defer p.Close()
	}
	out, code := operateAs(t, uid, "clients", "-o", "json", "--socket", d.Socket)
	require.Zero(t, code, out)
	var rows []clientJSON
	require.NoError(t, json.Unmarshal([]byte(out), &rows))
	require.Len(t, rows, 1)
	require.EqualValues(t, uid, rows[0].Process.UID)

	require.NoError(t, json.Unmarshal([]byte(operate(t, d, "clients", "-o", "json")), &rows))
	require.Len(t, rows, 2)
	out, code = operateAs(t, uid, "kick", strconv.FormatUint(rows[0].ID, 10), "--socket", d.Socket)
	require.Equal(t, exitError, code)
	require.Contains(t, out, "kick_client.client_id")
	out, code = operateAs(t, uid, "release", readable.String(), "--socket", d.Socket)
	require.Equal(t, exitError, code)
	require.Contains(t, out, "permission denied")
	out, code = operateAs(t, uid, "release", hidden.String(), "--socket", d.Socket)
	require.Equal(t, exitError, code)
	require.Contains(t, out, "partition not found")
	listed, err := c.List(testContext(t))
	require.NoError(t, err)
	require.Len(t, listed, 2)
	for _, row := range listed {
		require.Equal(t, "running", row.State)
	}
}

func TestOperatorCommandsNameWhatIsWrong(t *testing.T) {
	d := start(t)
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"kick"}, exitUsage, "needs the number of a client"},
		{[]string{"kick", "x"}, exitUsage, "want a number"},
		{[]string{"kick", "99999"}, exitError, "kick_client.client_id: got 99999, want a client that is there"},
		{[]string{"release"}, exitUsage, "needs the ID or the name"},
		{[]string{"release", shuffle.NewPartitionID().String()}, exitError, "partition not found"},
		{[]string{"clients", "x"}, exitUsage, "unexpected argument"},
	} {
		code, stdout, stderr := runProgram(nil, append(row.args, "--socket", d.Socket)...)
		require.Equal(t, row.code, code, row.args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, row.want)
	}
	d.Signal(unix.SIGKILL)
	d.Wait()
	for _, args := range [][]string{{"clients"}, {"kick", "1"}, {"release", "x"}} {
		code, _, stderr := runProgram(nil, append(args, "--socket", d.Socket)...)
		require.Equal(t, exitError, code)
		require.Contains(t, stderr, "the daemon is not running")
	}
}
