package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"shuffled/internal/cli"
	"shuffled/internal/daemon"
)

// checkCommand is the command check.
func checkCommand(p process) *cobra.Command {
	o := newServeOptions()
	c := &cobra.Command{
		Use: "check [flags]", Short: "Try what serve needs of this host, and exit", GroupID: daemonGroup,
		Args: cli.NoArguments,
		Long: `Tries what serve needs of this host, container or service, and prints each step. It
takes the flags and variables of serve, of which the memory matters: run it where and
as the daemon is to run. It opens no socket and leaves nothing behind. Serve does the
same before it opens its socket.

Exit code: 0 serve can work here, 1 something is refused, 2 bad settings.`,
		Example: `  shuffled check --memory 8GiB
  SHUFFLED_MEMORY=8GiB shuffled check`,
	}
	return p.command(c, o.settings(), func([]string) error {
		if err := o.check(); err != nil {
			return err
		}
		descriptors, limitErr := raiseDescriptorLimit()
		if limitErr == nil {
			limitErr = raiseFileSizeLimit()
		}
		steps, err := daemon.CheckHost(o.config())
		if err != nil {
			return err
		}
		for _, step := range steps {
			if step.Err != nil {
				fmt.Fprintf(p.stdout, "refused   %s: %v\n", step.Does, step.Err)
				return fmt.Errorf("this host refuses what shared memory needs")
			}
			fmt.Fprintf(p.stdout, "ok        %s\n", step.Does)
		}
		if limitErr != nil {
			fmt.Fprintf(p.stdout, "degraded  %v\n", limitErr)
		}
		for _, g := range probeDegradations(o, descriptors) {
			if g.active {
				fmt.Fprintf(p.stdout, "degraded  %s: %s\n", g.reason, g.detail)
			}
		}
		return o.budget.check(o.memory, o.config().Limits.ControlMemory, o.config().Limits.HeapMemory)
	})
}
