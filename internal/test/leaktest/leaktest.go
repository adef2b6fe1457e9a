package leaktest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"shuffled/internal/opened"
)

func init() { opened.Trace() }

// Main runs the tests of a package, then what is to be done at the end, and exits: not
// with 0 if goroutines or mappings are left, or the descriptors are not those of the
// beginning.
func Main(m goleak.TestingM, atEnd ...func()) {
	before := takeStock()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, end := range atEnd {
			end()
		}
		if code == 0 && !isFuzzing() {
			for _, change := range before.changes() {
				fmt.Fprintln(os.Stderr, "left open by the tests:", change)
				code = 1
			}
		}
		os.Exit(code)
	}))
}

// The engine that fuzzes keeps descriptors of its own.
func isFuzzing() bool {
	fuzz := flag.Lookup("test.fuzz")
	return fuzz != nil && fuzz.Value.String() != ""
}

// Check fails the test if it ends with other descriptors or mappings than it began
// with. It must be called before anything that opens some.
func Check(t testing.TB) {
	t.Helper()
	before := takeStock()
	t.Cleanup(func() {
		for _, change := range before.changes() {
			require.Fail(t, "left open by the test", change)
		}
	})
}

// A stock is what a process has open.
type stock struct {
	descriptors Set
	mappings    map[any]string
}

func takeStock() stock { return stock{Descriptors(), opened.Mappings()} }

// changes returns a text for each descriptor that was opened or closed since, and for
// each mapping that was made.
func (before stock) changes() []string {
	changes := before.descriptors.Changes()
	for key, text := range opened.Mappings() {
		if _, ok := before.mappings[key]; !ok {
			changes = append(changes, text)
		}
	}
	return changes
}
