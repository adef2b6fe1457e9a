package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Prepare makes the command of a program treat mistakes as this package does, and
// gives it the commands help and man. Call it once the command has all others. A
// program that is started without a command writes its help to standard error.
func Prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetFlagErrorFunc(flagError)
	root.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Unknown("command", args[0], commandNames(root))
		}
		return nil
	}
	root.RunE = func(*cobra.Command, []string) error {
		root.SetOut(root.ErrOrStderr())
		return errors.Join(root.Help(), Usagef("give a command"))
	}
	root.AddCommand(manCommand(root))
	root.SetHelpCommand(helpCommand(root))
	prepareCompletion(root)
}

// prepareCompletion has cobra's command completion treat mistakes so too.
func prepareCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil || completion == root {
		return
	}
	for _, shell := range completion.Commands() {
		shell.Args = NoArguments
	}
	completion.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Unknown("shell", args[0], commandNames(completion))
		}
		return Usagef("give a shell: one of %s", strings.Join(commandNames(completion), ", "))
	}
	completion.Run = func(*cobra.Command, []string) {} // makes cobra look at the arguments
}

// Execute runs what the arguments say, and returns the command that they name.
// Prepare must have been called.
func Execute(ctx context.Context, root *cobra.Command, args []string) (*cobra.Command, error) {
	if command, rest, err := root.Find(args); err == nil {
		command.InitDefaultHelpFlag()
		if err := refuseOneDash(command, rest); err != nil {
			return command, err
		}
	}
	root.SetArgs(args)
	return root.ExecuteContextC(ctx)
}

// refuseOneDash refuses a long flag behind a single dash, which would be read as
// several short ones.
func refuseOneDash(command *cobra.Command, args []string) error {
	for _, arg := range args {
		if arg == "--" {
			return nil
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) > 1 && strings.HasPrefix(arg, "-") && command.Flags().Lookup(name) != nil {
			return Usagef("flag -%s has two dashes: use --%s", name, name)
		}
	}
	return nil
}

// NoArguments refuses all arguments of a command.
func NoArguments(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if strings.Contains(args[0], "=") {
		hint = ": did you mean --" + args[0] + "?"
	}
	return Usagef("unexpected argument %q%s: see '%s --help'", args[0], hint, command.CommandPath())
}

// flagError makes a UsageError of an error of pflag.
func flagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case !errors.As(err, &unknown):
		return Usagef("%v: see '%s --help'", err, command.CommandPath())
	}
	name := "--" + unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		short, _, _ = strings.Cut(short, "=")
		name = "-" + short
	}
	var names []string
	command.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return Unknown("flag", name, names)
}

func commandNames(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return names
}

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print this, or the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			command, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return Unknown("command", strings.Join(args, " "), commandNames(root))
			}
			command.InitDefaultHelpFlag()
			return command.Help()
		},
	}
}
