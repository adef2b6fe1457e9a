package linktest

import (
	"fmt"
	"os"

	"go.uber.org/goleak"

	"shuffled/memseg"
)

// Main runs the tests of a package and fails it if goroutines or mappings are
// left at the end.
func Main(m goleak.TestingM) {
	before := memseg.LiveMappings()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if left := memseg.LiveMappings() - before; code == 0 && left != 0 {
			fmt.Fprintf(os.Stderr, "%d mappings are left\n", left)
			code = 1
		}
		os.Exit(code)
	}))
}
