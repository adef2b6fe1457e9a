package memseg

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A release store may be overtaken by a later load. The wake-up protocol stores a
// word and then loads one of its peer's, so its own words must never be stored
// that way; no test that runs would notice it on every machine.
func TestOnlyWordsThatNobodyWaitsForAreStoredWithRelease(t *testing.T) {
	allowed := map[string]bool{
		"published": true, "buffers": true, "heldLimit": true, "word": true, // the last is a marker's
		"Records": true, "BackPressuredNs": true, "IdleNs": true, "WakeUps": true,
	}
	seen := 0
	check := func(path string) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.EqualFold(method.Sel.Name, "storeRelease") {
				return true
			}
			word, ok := method.X.(*ast.SelectorExpr)
			require.True(t, ok && allowed[word.Sel.Name], "%s stores a word with release that is not in the list", path)
			seen++
			return true
		})
	}
	for _, folder := range []string{".", "../pool", "../shuffle", "../writer", "../reader", "../ipc", "../client"} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				check(path)
			}
			return err
		})
		require.NoError(t, err)
	}
	require.Positive(t, seen, "does the name of the method still fit?")
}

func TestReleaseStoresStoreTheirValue(t *testing.T) {
	var word Word
	var word32 Word32
	for _, v := range []uint64{0, 1, 1<<31 | 5, 1<<63 | 1<<31, ^uint64(0)} {
		word.StoreRelease(v)
		word32.storeRelease(uint32(v))
		require.Equal(t, v, word.Load())
		require.Equal(t, uint32(v), word32.Load())
		var private uint64
		storeRelease(&private, v)
		require.Equal(t, v, loadAcquire(&private))
	}
}
