package houserules

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A peer can die between any two instructions, and a word with one writer needs no
// instruction that reads and writes: files that lay words over shared memory have
// none, but for the doorbell, the one object that several processes write.
func TestWordsOfSharedMemoryAreStoredAndNotModified(t *testing.T) {
	readModifyWrite := regexp.MustCompile(`^(Add|Swap|CompareAndSwap|And|Or)([UI].*|Pointer)?$`)
	doorbell := map[string]bool{ // whether it is still there
		"memseg/words_unsafe.go Word.or":    false,
		"memseg/words_unsafe.go Word.swap":  false,
		"memseg/words_unsafe.go Word32.add": false,
	}
	for _, f := range sources(t) {
		if !strings.HasSuffix(strings.TrimSuffix(f.path, ".go"), "_unsafe") {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := filepath.ToSlash(f.path) + " " + receiver(fn) + fn.Name.Name
			ast.Inspect(fn, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok || !readModifyWrite.MatchString(selector.Sel.Name) {
					return true
				}
				if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "unsafe" {
					return true // unsafe.Add
				}
				_, allowed := doorbell[name]
				require.True(t, allowed, "%s uses %s", name, selector.Sel.Name)
				doorbell[name] = true
				return true
			})
		}
	}
	for name, there := range doorbell {
		require.True(t, there, "%s is allowed and not there: does the list of this test still fit?", name)
	}
}
