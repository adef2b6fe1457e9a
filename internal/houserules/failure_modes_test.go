package houserules

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// Every row of the failure modes has at least one test, and none is left out.
func TestEveryFailureModeHasATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "failure-modes.md"))
	require.NoError(t, err)
	row := regexp.MustCompile(`^\| ([A-H])(\d+) \|`)
	last := map[string]int{} // number, by group
	for line := range strings.Lines(string(text)) {
		match := row.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		require.Regexp(t, "`[a-z][a-z/]*\\.(Test|Example|Fuzz)\\w+`", line, "row %s%s has no test", match[1], match[2])
		number, err := strconv.Atoi(match[2])
		require.NoError(t, err)
		require.Contains(t, []int{last[match[1]], last[match[1]] + 1}, number, "rows of group %s", match[1])
		last[match[1]] = number
	}
}
