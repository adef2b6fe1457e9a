package bpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// generateCommand reads what go generate would run, and the version of LLVM that
// the committed objects were compiled with.
func generateCommand(t *testing.T) (arguments []string, llvm string) {
	t.Helper()
	source, err := os.ReadFile("generate.go")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^//go:generate go (tool bpf2go .*)$`).FindSubmatch(source)
	require.NotNil(t, line, "generate.go has no //go:generate go tool bpf2go")
	version := regexp.MustCompile(`LLVM (\d+)`).FindSubmatch(source)
	require.NotNil(t, version, "generate.go names no version of LLVM")
	return strings.Fields(string(line[1])), string(version[1])
}

func requireLLVM(t *testing.T, want string) {
	t.Helper()
	for _, tool := range []string{"clang", "llvm-strip"} {
		output, err := exec.Command(tool, "--version").Output()
		if err != nil {
			t.Skipf("cannot run %s: %v", tool, err)
		}
		version := regexp.MustCompile(`version (\d+)`).FindSubmatch(output)
		if version == nil || string(version[1]) != want {
			t.Skipf("the objects were compiled with LLVM %s, and %s is %s", want, tool,
				strings.SplitN(string(output), "\n", 2)[0])
		}
	}
}

func TestCommittedObjectsAreWhatTheirSourceCompilesTo(t *testing.T) {
	arguments, llvm := generateCommand(t)
	requireLLVM(t, llvm)
	dir := t.TempDir()
	arguments = append([]string{"tool", "bpf2go", "-output-dir", dir}, arguments[2:]...)
	cmd := exec.Command(goTool(t), arguments...)
	cmd.Env = append(os.Environ(), "GOPACKAGE=bpf")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)

	fresh, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, fresh, 2*len(objects))
	for _, entry := range fresh {
		committed, err := os.ReadFile(entry.Name())
		require.NoError(t, err)
		generated, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		require.True(t, string(committed) == string(generated),
			"%s is not what programs/ generate: run go generate ./internal/bpf", entry.Name())
	}
}
