package linktest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/memseg"
)

func TestMain(m *testing.M) { Main(m) }

// What a test binary may leave behind, which TEST_LEAVES names.
var leftovers = map[string]func() error{
	"nothing":    func() error { return nil },
	"descriptor": func() error { _, err := memseg.CreateMemfd("left", int64(os.Getpagesize())); return err },
	"mapping": func() error {
		m, err := memseg.CreateMemfd("left", int64(os.Getpagesize()))
		if err != nil {
			return err
		}
		defer func() { _ = m.Close() }()
		_, err = m.Map(memseg.ReadOnly, int64(os.Getpagesize()))
		return err
	},
}

func TestLeavesWhatItIsTold(t *testing.T) {
	if leave := leftovers[os.Getenv("TEST_LEAVES")]; leave != nil {
		require.NoError(t, leave())
	}
}

func TestBinaryThatLeavesSomethingFails(t *testing.T) {
	for leaves, want := range map[string]string{"nothing": "", "descriptor": "descriptors have changed: [\"+", "mapping": "1 mappings are left\n"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLeavesWhatItIsTold$")
		cmd.Env = append(os.Environ(), "TEST_LEAVES="+leaves)
		out, err := cmd.CombinedOutput()
		require.Equal(t, want != "", err != nil, string(out))
		require.Contains(t, string(out), want)
		require.Contains(t, string(out), "PASS", "the test itself is fine")
	}
}
