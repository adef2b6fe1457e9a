package linktest

import (
	"fmt"
	"os"

	"go.uber.org/goleak"

	"shuffled/internal/test/fdtest"
	"shuffled/memseg"
)

// Main runs the tests of a package and fails it if goroutines or mappings are left at
// the end, or its descriptors are not those of the beginning.
func Main(m goleak.TestingM) {
	mappings, descriptors := memseg.LiveMappings(), fdtest.Open()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if code == 0 {
			code = reportLeft(memseg.LiveMappings()-mappings, descriptors.Changes())
		}
		os.Exit(code)
	}))
}

// reportLeft prints what is left and what has changed, and returns the exit code that
// this means.
func reportLeft(mappings int64, descriptors []string) (code int) {
	if mappings != 0 {
		fmt.Fprintf(os.Stderr, "%d mappings are left\n", mappings)
		code = 1
	}
	if len(descriptors) > 0 {
		fmt.Fprintf(os.Stderr, "descriptors have changed: %q\n", descriptors)
		code = 1
	}
	return code
}
