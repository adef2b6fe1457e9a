package controlpb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m)
}

const generated = "control.pb.go"

// requireTools skips the test unless protoc is here in the version that wrote the
// committed file, since other versions write other headers.
func requireTools(t *testing.T, committed []byte) {
	t.Helper()
	header := regexp.MustCompile(`(?m)^// \tprotoc +v(\S+)$`).FindSubmatch(committed)
	require.NotNil(t, header, "%s does not say which protoc wrote it", generated)
	for _, tool := range []string{"sh", "go", "protoc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	output, err := exec.Command("protoc", "--version").Output()
	require.NoError(t, err)
	if installed := strings.TrimPrefix(strings.TrimSpace(string(output)),
		"libprotoc "); installed != string(header[1]) {
		t.Skipf("protoc is installed in version %s, %s was written by %s", installed, generated, header[1])
	}
}

// generateCommand reads what go generate would run.
func generateCommand(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("generate.go")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^//go:generate sh -c (".*")$`).FindSubmatch(source)
	require.NotNil(t, line, "generate.go has no //go:generate sh -c")
	command, err := strconv.Unquote(string(line[1]))
	require.NoError(t, err)
	return command
}

func TestCommittedCodeIsWhatTheProtocolFileGenerates(t *testing.T) {
	committed, err := os.ReadFile(generated)
	require.NoError(t, err)
	requireTools(t, committed)

	command, dir := generateCommand(t), t.TempDir()
	redirected := strings.Replace(command, "--go_out=. ", `--go_out="$OUT" `, 1)
	require.NotEqual(t, command, redirected, "the command does not write to --go_out=.")
	run := exec.Command("sh", "-c", redirected)
	run.Env = append(os.Environ(), "OUT="+dir)
	output, err := run.CombinedOutput()
	require.NoError(t, err, "%s", output)

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	fresh, err := os.ReadFile(filepath.Join(dir, generated))
	require.NoError(t, err)
	require.True(t, bytes.Equal(committed, fresh), "%s is not what control.proto generates: run go generate ./ipc/...",
		generated)
}
