package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// execute runs a program with the command "serve" and its flag --memory.
func execute(t *testing.T, args ...string) (memory, stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root := &cobra.Command{Use: "program"}
	root.SetOut(&out)
	root.SetErr(&errs)
	serve := &cobra.Command{Use: "serve", Short: "Run the daemon", Args: NoArguments,
		Run: func(*cobra.Command, []string) {}}
	serve.Flags().StringVar(&memory, "memory", "1GiB", "how much")
	serve.Flags().IntP("output", "o", 0, "a number")
	root.AddCommand(serve)
	Prepare(root)
	_, err = Execute(t.Context(), root, args)
	return memory, out.String(), errs.String(), err
}

func TestMistakesSayWhatWasProbablyMeant(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"sevre"}, `unknown command "sevre": did you mean serve?`},
		{[]string{"help", "sevre"}, `unknown command "sevre": did you mean serve?`},
		{[]string{"frobnicate"}, `unknown command "frobnicate": want one of completion, help, serve`},
		{[]string{"serve", "--memroy", "1"}, `unknown flag "--memroy": did you mean --memory?`},
		{[]string{"serve", "-memory", "1"}, "flag -memory has two dashes: use --memory"},
		{[]string{"serve", "-memory=1"}, "flag -memory has two dashes: use --memory"},
		{[]string{"serve", "-memroy=1"}, `unknown flag "-memroy": did you mean --memory?`},
		{[]string{"serve", "--memory"}, "flag needs an argument: --memory: see 'program serve --help'"},
		{[]string{"serve", "-o", "x"}, `invalid argument "x" for "-o, --output" flag`},
		{[]string{"serve", "now"}, `unexpected argument "now": see 'program serve --help'`},
		{[]string{"serve", "memory=1"}, `unexpected argument "memory=1": did you mean --memory=1?`},
		{[]string{"serve", "-help"}, "flag -help has two dashes: use --help"},
		{[]string{"man"}, "want one argument"},
		{[]string{"completion"}, "give a shell: one of bash, fish, powershell, zsh"},
		{[]string{"completion", "bsh"}, `unknown shell "bsh": did you mean bash?`},
		{[]string{"completion", "bash", "zsh"}, `unexpected argument "zsh"`},
	} {
		_, stdout, stderr, err := execute(t, row.args...)
		var usage *UsageError
		require.ErrorAs(t, err, &usage, "%q", row.args)
		require.ErrorContains(t, err, row.want, "%q", row.args)
		require.Empty(t, stdout+stderr, "the caller prints it: %q", row.args)
	}
}

func TestWithoutACommandTheHelpGoesToStandardError(t *testing.T) {
	_, stdout, stderr, err := execute(t)
	require.ErrorContains(t, err, "give a command")
	require.Empty(t, stdout)
	require.Contains(t, stderr, "Run the daemon")
}

func TestHelpThatIsAskedForGoesToStandardOutput(t *testing.T) {
	for _, args := range [][]string{{"help", "serve"}, {"serve", "--help"}, {"serve", "-h"}} {
		_, stdout, stderr, err := execute(t, args...)
		require.NoError(t, err, "%q", args)
		require.Contains(t, stdout, "--memory string", "%q", args)
		require.Contains(t, stdout, "help for serve", "%q", args)
		require.Empty(t, stderr, "%q", args)
	}
}

func TestValuesMayLookLikeFlags(t *testing.T) {
	memory, _, _, err := execute(t, "serve", "--memory", "-1")
	require.NoError(t, err)
	require.Equal(t, "-1", memory)
}

func TestEveryCommandHasAManualPage(t *testing.T) {
	folder := t.TempDir()
	_, _, _, err := execute(t, "man", folder)
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(folder, "program-serve.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), "Run the daemon")
	_, _, _, err = execute(t, "man", filepath.Join(folder, "missing"))
	require.ErrorContains(t, err, "write manual pages to")
}
