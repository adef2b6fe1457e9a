package client

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/ipc"
	"shuffled/shuffle"
)

// dialAs connects as another user: the kernel takes the identity of a peer from
// the thread that connects.
func (d *testDaemon) dialAs(t *testing.T, uid, gid uint32) (*Client, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can connect as another user")
	}
	require.NoError(t, os.Chmod(d.path, 0o777))
	require.NoError(t, os.Chmod(filepath.Dir(d.path), 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(d.path)), 0o755))
	type result struct {
		conn *ipc.Conn
		err  error
	}
	dialed := make(chan result)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); errno != 0 {
			dialed <- result{nil, errno}
			return
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			dialed <- result{nil, errno}
			return
		}
		conn, err := ipc.Dial(testContext(t), d.path)
		dialed <- result{conn, err}
	}()
	r := <-dialed
	require.NoError(t, r.err)
	o, err := newOptions(nil)
	require.NoError(t, err)
	c, err := newClient(testContext(t), r.conn, o, nil)
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func TestOnlyAllowedUsersMayConnect(t *testing.T) {
	config := testConfig()
	config.AllowedUIDs, config.AllowedGIDs = []uint32{2001}, []uint32{3001}
	d := startDaemon(t, config)
	_, err := d.dialAs(t, 2000, 3000)
	require.ErrorIs(t, err, shuffle.ErrPermission)
	require.ErrorContains(t, err, "uid 2000 gid 3000 may not connect")
	for _, who := range [][2]uint32{{2001, 3000}, {2000, 3001}} {
		c, err := d.dialAs(t, who[0], who[1])
		require.NoError(t, err)
		_, err = c.List(testContext(t))
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, d.Snapshot().Rejects["permission"])
}

func TestPartitionIsReadByWhomItsCreatorAllows(t *testing.T) {
	config := testConfig()
	config.AllowedGIDs = []uint32{3000}
	d := startDaemon(t, config)
	producer, err := d.dialAs(t, 2000, 3000)
	require.NoError(t, err)
	stranger, err := d.dialAs(t, 2001, 3000)
	require.NoError(t, err)
	root := d.dial(t)

	s := spec(3)
	s.Token = "sesame"
	p := create(t, producer, s)
	for i := range 3 {
		require.NoError(t, p.EmitRecord(testContext(t), framed("secret"), i))
	}
	require.NoError(t, p.Finish(testContext(t)))

	_, err = stranger.Inspect(testContext(t), s.ID)
	require.ErrorIs(t, err, shuffle.ErrPartitionNotFound)
	rows, err := stranger.List(testContext(t))
	require.NoError(t, err)
	require.Empty(t, rows)
	rows, err = root.List(testContext(t))
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.EqualValues(t, 2000, rows[0].Producer.UID)

	for _, test := range []struct {
		who     *Client
		token   string
		allowed bool
	}{{stranger, "", false}, {stranger, "open", false}, {stranger, "sesame", true}, {producer, "", true},
		{root, "", true}} {
		inputs := gateOf(s.ID, 0)
		if test.allowed {
			inputs = gateOf(s.ID, map[*Client]int{stranger: 0, producer: 1, root: 2}[test.who])
		}
		inputs.Inputs[0].Token, inputs.Inputs[0].Owner = test.token, new(uint32(2000))
		inputs.Timeout = time.Millisecond
		gate, err := test.who.OpenGate(testContext(t), inputs)
		require.NoError(t, err)
		if test.allowed {
			require.Equal(t, []string{"secret"}, readAll(t, gate)[0])
		} else {
			_, err := nextError(t, gate)
			require.ErrorIs(t, err, shuffle.ErrPartitionNotFound, "as if it did not exist")
		}
		require.NoError(t, gate.Close())
	}
	require.NoError(t, p.Close())
	require.EqualValues(t, 3, d.Snapshot().Rejects["access_denied"], "an inspection and two inputs")
	d.requireIdle(t)
}
