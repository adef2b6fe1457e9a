package bpf

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const helloProgram = `package main

//go:noinline
func Found(a uint64) uint64 { return a * 3 }

func main() { println(Found(14)) }
`

// buildHello builds a program with flags.
func buildHello(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "hello.go"), filepath.Join(dir, "hello")
	require.NoError(t, os.WriteFile(source, []byte(helloProgram), 0o600))
	cmd := exec.Command(goTool(t), append(append([]string{"build", "-o", program}, flags...), source)...)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return program
}

func TestFunctionsAreFoundWithAndWithoutSymbols(t *testing.T) {
	program := buildHello(t)
	f, err := elf.Open(program)
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	require.NoError(t, err)
	want := uint64(0)
	for _, symbol := range symbols {
		if symbol.Name == "main.Found" {
			text := f.Sections[symbol.Section]
			want = symbol.Value - text.Addr + text.Offset
		}
	}
	require.NotZero(t, want)
	offsets, err := functionOffsets(program, "main.Found")
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"main.Found": want}, offsets)

	// The function holds no address, so its code is the same in each.
	codeAt := func(program string, offset uint64) []byte {
		content, err := os.ReadFile(program)
		require.NoError(t, err)
		return content[offset : offset+4]
	}
	code := codeAt(program, want)
	for _, flags := range [][]string{{"-ldflags=-s -w"}, {"-buildmode=pie"}, {"-buildmode=pie", "-ldflags=-s -w"}} {
		other := buildHello(t, flags...)
		offsets, err := functionOffsets(other, "main.Found")
		require.NoError(t, err, "%q", flags)
		require.Equal(t, code, codeAt(other, offsets["main.Found"]), "%q", flags)
	}
	_, err = functionOffsets(program, "main.Lost")
	require.ErrorContains(t, err, "has no function main.Lost")
}

func TestDamagedFunctionTableIsAnError(t *testing.T) {
	program := buildHello(t, "-ldflags=-s -w")
	f, err := elf.Open(program)
	require.NoError(t, err)
	table := f.Section(".gopclntab")
	require.NoError(t, f.Close())
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	for at := table.Offset + 8; at < table.Offset+min(table.Size, 1<<16); at++ {
		content[at] = 0xff
	}
	require.NoError(t, os.WriteFile(program, content, 0o700))
	_, err = functionOffsets(program, "main.Found")
	require.Error(t, err)
}
