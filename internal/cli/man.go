package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the manual pages of a program. It is for who packages the
// program, so help does not list it.
func manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write manual pages to a folder",
		Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return Usagef("want one argument, the folder to write to")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: strings.ToUpper(root.Name()), Section: "1", Source: "shuffled"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write manual pages to %s: %w", args[0], err)
			}
			return nil
		},
	}
}
