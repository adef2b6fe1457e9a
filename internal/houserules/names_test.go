package houserules

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// A file or package is named after what it holds.
func TestFilesAndPackagesAreNamedAfterAConcept(t *testing.T) {
	nothing := []string{"util", "utils", "common", "helper", "helpers", "types", "misc"}
	for _, f := range sources(t) {
		require.NotContains(t, nothing, f.ast.Name.Name, "%s: package", f.path)
		base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(f.path), ".go"), "_test")
		for _, word := range nothing {
			require.False(t, slices.Contains(strings.Split(base, "_"), word), "%s is named %s", f.path, word)
		}
	}
}

// Words that a stranger stumbles over, with what says the same.
func TestNamesAreTheFieldsWords(t *testing.T) {
	instead := map[string]string{"unhand": "take back", "leavemail": "post", "lookfornews": "queue"}
	for _, f := range sources(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				for word, better := range instead {
					begins := strings.HasPrefix(strings.ToLower(id.Name), word)
					require.False(t, begins, "%s: %s: say %s", f.path, id.Name, better)
				}
			}
			return true
		})
	}
}

// Pages are read side by side with code: lines of at most 120 characters, but for
// tables, whose rows are lines, and code that is shown.
func TestPagesHaveShortLines(t *testing.T) {
	const width = 120
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	pages = append(pages, more...)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		number, isCode := 0, false
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, "```") {
				isCode = !isCode
			}
			if !isCode && !strings.HasPrefix(line, "|") {
				require.LessOrEqual(t, utf8.RuneCountInString(line), width, "%s:%d", filepath.Base(page), number)
			}
		}
	}
}

// So are sources, a tab counting as four, but for what is longer by a text alone: a string,
// or what stands in one of several lines. Tests may have a message of the protocol in a line.
func TestSourcesHaveShortLines(t *testing.T) {
	const width, text = 120, 40
	for _, f := range sources(t) {
		source, err := os.ReadFile(filepath.Join(root, f.path))
		require.NoError(t, err)
		longText := map[int]bool{} // lines that have one
		ast.Inspect(f.ast, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if ok && literal.Kind == token.STRING && len(literal.Value) >= text {
				first := f.file.Line(literal.Pos())
				for line := first; line <= first+strings.Count(literal.Value, "\n"); line++ {
					longText[line] = true
				}
			}
			return true
		})
		number := 0
		for line := range strings.Lines(string(source)) {
			number++
			line = strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
			if !longText[number] && !strings.HasPrefix(line, "//go:") && !(f.isTest() && strings.Contains(line, "controlpb.")) && !ast.IsGenerated(f.ast) {
				require.LessOrEqual(t, utf8.RuneCountInString(line), width, "%s:%d", f.path, number)
			}
		}
	}
}

// A process, a client or a user is "it" or "they" in comments and pages.
func TestProcessesAreNoMen(t *testing.T) {
	man := regexp.MustCompile(`(?i)\b(he|him|his|himself)\b`)
	for _, f := range sources(t) {
		for _, comments := range f.ast.Comments {
			require.False(t, man.MatchString(comments.Text()), "%s: %s", f.path, comments.Text())
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Empty(t, man.FindAllString(string(text), -1), page)
	}
}
