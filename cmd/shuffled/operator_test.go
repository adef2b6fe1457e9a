package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/daemontest"
	"shuffled/pool"
	"shuffled/shuffle"
	"shuffled/writer"
)

func isNotRoot() bool { return os.Geteuid() != 0 }

// openToAll lets every user connect as far as the file system is concerned.
func openToAll(t *testing.T, socket string) {
	t.Helper()
	require.NoError(t, os.Chmod(filepath.Dir(socket), 0o755))
	require.NoError(t, os.Chmod(socket, 0o666))
}

// list runs list or inspect in this process.
func operate(t *testing.T, d *daemontest.Daemon, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := runProgram(nil, append(args, "--socket", d.Socket)...)
	require.Equal(t, exitOK, code, stderr)
	require.Empty(t, stderr)
	return stdout
}

func TestListWithoutPartitions(t *testing.T) {
	d := start(t)
	require.Equal(t, "[]\n", operate(t, d, "list", "-o", "json"))
	require.Equal(t,
		"ID  ATTEMPT  TYPE  STATE  SUBPARTITIONS  SEGMENTS  POOL  BYTES  BUFFERS  RECORDS  BACK-PRESSURED  PID  UID  ATTACHED  READER  STILL  NAME\n",
		operate(t, d, "list"))
}

func TestListAndInspectShowAPartition(t *testing.T) {
	d := start(t)
	c := dial(t, d)
	before := time.Now()
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Attempt: 3, Name: "job 1\x1b[2J",
		Subpartitions: 2})
	require.NoError(t, err)
	defer p.Close()
	gate := oneInput(t, c, id)
	defer gate.Close()
	w, err := writer.New(p, shuffle.Strings{}, writer.Custom(func(rec string, _ int) int { return len(rec) % 2 }))
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Emit(testContext(t), "even"))
	require.NoError(t, w.Emit(testContext(t), "odd"))
	require.NoError(t, w.Finish(testContext(t)))
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	b.Release()

	var rows []partitionJSON
	require.NoError(t, json.Unmarshal([]byte(operate(t, d, "list", "-o", "json")), &rows))
	require.Len(t, rows, 1)
	row := rows[0]
	require.False(t, row.Created.Before(before))
	most := 2*pool.DefaultBuffersPerChannel + pool.FloatingBuffers(pool.DefaultSegmentSize,
		pool.DefaultFloatingBytes(2))
	me := processJSON{PID: int32(os.Getpid()), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	require.Equal(t, partitionJSON{
		ID: id.String(), Name: "job 1\x1b[2J", Attempt: 3, Type: "PIPELINED_BOUNDED", State: "finished",
		Created:       row.Created,
		Subpartitions: 2, Producer: me, ProducerAttached: true, PoolRequired: 3, PoolSize: row.PoolSize, PoolMax: most,
		SegmentsHeld: row.SegmentsHeld, HeldBytes: int64(row.SegmentsHeld) * pool.DefaultSegmentSize, Bytes: 8 + 7,
		Buffers: 2, Records: 2,
		BackPressuredSec: row.BackPressuredSec, ProducerWakeUps: row.ProducerWakeUps,
	}, row)
	require.Positive(t, row.SegmentsHeld)

	var detail partitionJSON
	require.NoError(t, json.Unmarshal([]byte(operate(t, d, "inspect", id.String(), "-o", "json")), &detail))
	channel := 0
	require.Equal(t, []subpartitionJSON{
		{Index: 0, State: "attached", BuffersPublished: 2, BuffersReleased: 1, Bytes: 8, Consumer: &me,
			Gate: detail.SubpartitionDetails[0].Gate, Channel: &channel},
		{Index: 1, State: "idle", BuffersPublished: 2, Bytes: 7},
	}, detail.SubpartitionDetails)
	detail.SubpartitionDetails = nil
	// What the producer gives back meanwhile.
	require.LessOrEqual(t, detail.SegmentsHeld, row.SegmentsHeld)
	row.PoolSize, row.SegmentsHeld, row.HeldBytes = detail.PoolSize, detail.SegmentsHeld, detail.HeldBytes
	require.Equal(t, row, detail)

	lines := strings.Split(operate(t, d, "list"), "\n")
	require.Len(t, lines, 3)
	pid, uid := strconv.Itoa(os.Getpid()), strconv.Itoa(os.Geteuid())
	require.Regexp(t, `^`+id.String()+` +3 +PIPELINED_BOUNDED +finished +2 +\d+ +\d+ +15 +2 +2 +\d+\.\d{3}s +`+pid+` +`+
		uid+` +yes +- +- +"job 1\\x1b\[2J"$`, lines[1])

	text := operate(t, d, "inspect", "-o=table", id.String())
	for _, want := range []string{
		`(?m)^id: +` + id.String() + `$`, `(?m)^name: +"job 1\\x1b\[2J"$`, `(?m)^state: +finished$`,
		`(?m)^producer: +pid ` + pid + `, uid ` + uid,
		`(?m)^segments: +\d+ of a pool of \d+ \(required 3, max ` + strconv.Itoa(most) + `\)$`,
		`(?m)^SUBPARTITION +STATE +PUBLISHED +RELEASED +BYTES +PID +UID +GATE +CHANNEL$`,
		`(?m)^0 +attached +2 +1 +8 +` + pid + ` +` + uid + ` +\d+ +0$`,
		`(?m)^1 +idle +2 +0 +7 +- +- +- +-$`,
	} {
		require.Regexp(t, regexp.MustCompile(want), text)
	}
	require.NotContains(t, text, "\x1b")
}

func TestInspectFindsAPartitionByWhatItIsCalled(t *testing.T) {
	d := start(t)
	c := dial(t, d)
	create := func(id shuffle.PartitionID, name string) shuffle.PartitionID {
		p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Name: name, Subpartitions: 1})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		return id
	}
	named := create(shuffle.NamedPartitionID("job-42/map-3"), "")
	shown := create(shuffle.NewPartitionID(), "shown name")
	first, second := create(shuffle.NewPartitionID(), "twice"), create(shuffle.NewPartitionID(), "twice")
	for arg, want := range map[string]shuffle.PartitionID{
		"job-42/map-3": named, "shown name": shown, shown.String()[:12]: shown, strings.ToUpper(named.String()): named,
		first.String(): first,
	} {
		var row partitionJSON
		require.NoError(t, json.Unmarshal([]byte(operate(t, d, "inspect", arg, "-o", "json")), &row), arg)
		require.Equal(t, want.String(), row.ID, arg)
	}
	code, _, stderr := runProgram(nil, "inspect", "twice", "--socket", d.Socket)
	require.Equal(t, exitUsage, code)
	for _, want := range []string{`"twice" is the name`, "of 2 partitions", first.String(), second.String(),
		"by its whole id"} {
		require.Contains(t, stderr, want)
	}
	uid := strconv.Itoa(os.Geteuid())
	require.Contains(t, operate(t, d, "inspect", "shown name", "--owner", uid), shown.String())
	code, _, stderr = runProgram(nil, "inspect", "shown name", "--owner", "4242", "--socket", d.Socket)
	require.Equal(t, exitError, code)
	require.Contains(t, stderr, "partition not found")
}

func TestWhatAUserChoseReachesTheTerminalQuoted(t *testing.T) {
	d := start(t)
	c := dial(t, d)
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NamedPartitionID("hostile"),
		Name: "a\x1b[2Jb\u009b2J\u202e\U000e0001", Subpartitions: 1})
	require.NoError(t, err)
	require.NoError(t, p.Fail(testContext(t), errors.New("boom\x1b]0;title\x07\nshuffled list: all is well")))
	asJSON := operate(t, d, "inspect", "hostile", "-o", "json")
	var row partitionJSON
	require.NoError(t, json.Unmarshal([]byte(asJSON), &row))
	require.Equal(t, "a\x1b[2Jb\u009b2J\u202e\U000e0001", row.Name, "programs get what it is")
	text := operate(t, d, "list") + operate(t, d, "inspect", "hostile") + asJSON
	require.NoError(t, p.Close())
	var stderr string
	require.Eventually(t, func() bool { // Close does not wait for the daemon
		var code int
		code, _, stderr = runProgram(nil, "inspect", "hostile", "--socket", d.Socket)
		return code == exitError
	}, daemontest.Patience, 10*time.Millisecond)
	require.Contains(t, stderr, `partition "a\x1b[2Jb\u009b2J\u202e\U000e0001" (`)
	require.Contains(t, stderr, `boom\x1b]0;title\a`)
	for _, text := range []string{text, stderr} {
		require.NotRegexp(t, "[^\\n\\pL\\pM\\pN\\pP\\pS\\p{Zs}]", text, "nothing but graphic characters and lines")
		require.NotRegexp(t, `(?m)^shuffled list: all is well`, text)
	}
}

func TestInspectOfManySubpartitionsSaysWhatItLeavesOut(t *testing.T) {
	d := start(t)
	c := dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1500})
	require.NoError(t, err)
	require.Contains(t, operate(t, d, "inspect", id.String()), "(the first 1024 of 1500 subpartitions)")
	require.NoError(t, p.Close())
}

func TestListShowsMoreThanAPage(t *testing.T) {
	d := start(t)
	c := dial(t, d)
	const partitions = 400
	for range partitions {
		p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(),
			Subpartitions: 1})
		require.NoError(t, err)
		defer p.Close()
	}
	var rows []partitionJSON
	require.NoError(t, json.Unmarshal([]byte(operate(t, d, "list", "-o", "json")), &rows))
	require.Len(t, rows, partitions)
}

func TestOperatorCommandsReportWhatIsWrong(t *testing.T) {
	d := start(t)
	socket := d.Socket
	missing := socket + ".none"
	id := shuffle.NewPartitionID().String()
	for _, row := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"not running", []string{"list", "--socket", missing}, exitError, "the daemon is not running"},
		{"not running, inspect", []string{"inspect", id, "--socket", missing}, exitError, "the daemon is not running"},
		{"not found", []string{"inspect", id, "--socket", socket}, exitError, "partition not found"},
		{"no id", []string{"inspect", "--socket", socket}, exitUsage, "needs the ID or the name of a partition"},
		{"no such name", []string{"inspect", "17", "--socket", socket}, exitError,
			`none that this user may read has the name "17", the id 4523540f1504cd17100c4835e85b7eef that is made from it`},
		{"bad owner", []string{"inspect", id, "--owner", "me", "--socket", socket}, exitUsage, "want a numeric uid"},
		{"two ids", []string{"inspect", id, id, "--socket", socket}, exitUsage, "unexpected argument"},
		{"stray argument", []string{"list", id, "--socket", socket}, exitUsage, "unexpected argument"},
		{"bad format", []string{"list", "-o", "yaml", "--socket", socket}, exitUsage, "want one of table, json"},
		{"unknown flag", []string{"list", "--sokcet", socket}, exitUsage, "did you mean --socket?"},
		{"flag of serve", []string{"list", "--memory", "1GiB"}, exitUsage, `unknown flag "--memory"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, stdout, stderr := runProgram(nil, row.args...)
			require.Equal(t, row.code, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, row.want)
		})
	}
	code, _, stderr := runProgram([]string{"SHUFFLED_SOCKET=" + socket}, "list")
	require.Equal(t, exitOK, code, stderr)

	d.Signal(unix.SIGKILL)
	d.Wait()
	code, _, stderr = runProgram(nil, "list", "--socket", socket)
	require.Equal(t, exitError, code)
	require.Contains(t, stderr, "the daemon is not running")
}

func TestNamesAreFitForATerminal(t *testing.T) {
	for _, row := range []struct{ name, want string }{
		{"", "-"}, {"-", `"-"`}, {"map-3", "map-3"}, {"a b", `"a b"`}, {"größe", "größe"}, {"\x1b[31m", `"\x1b[31m"`},
		{`"q"`, `"\"q\""`}, {"a\u202eb", `"a\u202eb"`},
	} {
		require.Equal(t, row.want, displayName(row.name))
	}
}
