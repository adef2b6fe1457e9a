package houserules

import (
	"go/ast"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sentinels of the same name are the same value: each is declared as the same variable of
// package sentinel, whichever package's name a user gives to errors.Is.
func TestSentinelsOfOneNameAreOneValue(t *testing.T) {
	values, packages := map[string]string{}, map[string]string{}
	shared := 0
	for _, f := range sources(t) {
		switch f.folder() {
		case "memseg", "pool", "shuffle":
		default:
			continue // its errors do not reach users
		}
		if f.isTest() || !strings.HasSuffix(f.path, "errors.go") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Err") {
				return true
			}
			name, value := spec.Names[0].Name, types.ExprString(spec.Values[0])
			if before, ok := values[name]; ok {
				shared++
				require.Equal(t, before, value, "%s of %s and of %s", name, packages[name], f.folder())
				require.NotContains(t, value, "New", "%s of %s and of %s are two values", name, packages[name],
					f.folder())
			}
			values[name], packages[name] = value, f.folder()
			return true
		})
	}
	require.NotZero(t, shared, "no name is declared twice: does this test still look where sentinels are?")
}
