package leaktest_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc"
	"shuffled/memseg"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const leavesVariable = "SHUFFLED_TEST_LEAVES"

var pageSize = int64(os.Getpagesize())

// What a test binary may leave open, which leavesVariable names.
var leftovers = map[string]func(t *testing.T){
	"nothing":    func(*testing.T) {},
	"memfd":      leaveMemfd,
	"mapping":    leaveMapping,
	"connection": leaveConnection,
	"file":       leaveFile,
	"goroutine":  leaveGoroutine,
}

func leaveMemfd(t *testing.T) {
	_, err := memseg.CreateMemfd("left", pageSize)
	require.NoError(t, err)
}

func leaveMapping(t *testing.T) {
	m, err := memseg.CreateMemfd("left", pageSize)
	require.NoError(t, err)
	defer func() { _ = m.Close() }()
	_, err = m.Map(memseg.ReadOnly, pageSize)
	require.NoError(t, err)
}

var connection *ipc.Conn

func leaveConnection(t *testing.T) {
	left, other, err := ipc.Pair()
	require.NoError(t, err)
	connection = left
	require.NoError(t, other.Close())
}

var file *os.File

func leaveFile(t *testing.T) {
	var err error
	file, err = os.Open("/dev/zero")
	require.NoError(t, err)
}

func leaveGoroutine(*testing.T) { go func() { select {} }() }

func TestLeavesWhatItIsTold(t *testing.T) {
	if leave := leftovers[os.Getenv(leavesVariable)]; leave != nil {
		leave(t)
	}
}

func TestBinaryThatLeavesSomethingFailsAndNamesWhoOpenedIt(t *testing.T) {
	for leaves, want := range map[string][]string{
		"nothing":    nil,
		"memfd":      {"/memfd:left", "memseg.CreateMemfd", "leaktest_test.leaveMemfd"},
		"mapping":    {`mapping of "left"`, "memseg.(*Memfd).Map", "leaktest_test.leaveMapping"},
		"connection": {"socket:[", "leaktest_test.leaveConnection"},
		"file":       {"/dev/zero"},
		"goroutine":  {"found unexpected goroutines", "leaktest_test.leaveGoroutine"},
	} {
		t.Run(leaves, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestLeavesWhatItIsTold$")
			cmd.Env = append(os.Environ(), leavesVariable+"="+leaves)
			out, err := cmd.CombinedOutput()
			require.Contains(t, string(out), "PASS", "the test itself is fine")
			if want == nil {
				require.NoError(t, err, string(out))
			} else {
				require.Error(t, err)
			}
			for _, text := range want {
				require.Contains(t, string(out), text)
			}
		})
	}
}

// failing is a test that records its failures.
type failing struct {
	testing.TB
	ends    []func()
	message string
}

func (f *failing) Helper()                           {}
func (f *failing) Cleanup(end func())                { f.ends = append(f.ends, end) }
func (f *failing) Errorf(format string, args ...any) { f.message += args[0].(string) }
func (f *failing) FailNow()                          {}

func TestCheckFailsATestAndNamesWhoOpenedWhatIsLeft(t *testing.T) {
	inner := &failing{TB: t}
	leaktest.Check(inner)
	m, err := memseg.CreateMemfd("of this test", pageSize)
	require.NoError(t, err)
	inner.ends[0]()
	require.Contains(t, inner.message, "TestCheckFailsATestAndNamesWhoOpenedWhatIsLeft")
	require.NoError(t, m.Close())
	inner.message = ""
	inner.ends[0]()
	require.Empty(t, inner.message)
}
