package houserules

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testNames are the tests of the project, as folder.Name.
func testNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, f := range sources(t) {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.isTest() && fn.Recv == nil {
				names[f.folder()+"."+fn.Name.Name] = true
			}
		}
	}
	return names
}

// A page that promises an outcome names the test that holds it.
func TestPagesNameTestsThatExist(t *testing.T) {
	named := regexp.MustCompile("`([a-z][a-z/]*\\.(?:Test|Example|Fuzz|Benchmark)\\w*)`")
	names := testNames(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			require.True(t, names[match[1]], "%s names %s, which is no test", filepath.Base(page), match[1])
		}
	}
}

// Every row of the failure modes has at least one test.
func TestEveryFailureModeHasATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "failure-modes.md"))
	require.NoError(t, err)
	row := regexp.MustCompile(`^\| ([A-H]\d+) \|`)
	for line := range strings.Lines(string(text)) {
		if match := row.FindStringSubmatch(line); match != nil {
			require.Regexp(t, "`[a-z][a-z/]*\\.(Test|Example|Fuzz)\\w+`", line, "row %s has no test", match[1])
		}
	}
}
