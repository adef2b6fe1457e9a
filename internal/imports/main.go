// Command imports prints which package of the project imports which, by wing, with
// the lines of code of each: as text, or with -dot as a graph for Graphviz. Tests are
// left out. It reads the folder that it is run in.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "shuffled/"

// A wing is a part of the project, which its packages belong to by their folders.
type wing struct {
	name    string
	folders []string // with all that is below
}

// The first wing that has a folder counts.
var wings = []wing{
	{"users", []string{"client", "shuffle", "writer", "reader"}},
	{"data path", []string{"memseg", "pool", "internal/partition", "internal/gate"}},
	{"daemon", []string{"ipc", "internal/daemon"}},
	{"examples", []string{"examples"}},
	{"bench", []string{"bench", "internal/bpf"}},
	{"programs", []string{"cmd"}},
	{"for tests and checks", []string{"internal/test", "internal/houserules", "internal/imports"}},
	{"small parts", []string{"internal"}},
}

func wingOf(folder string) string {
	for _, w := range wings {
		for _, f := range w.folders {
			if folder == f || strings.HasPrefix(folder, f+"/") {
				return w.name
			}
		}
	}
	return "no wing"
}

// A folder is a package of the project.
type folder struct {
	lines   int // of files that are not tests
	imports map[string]bool
}

// read returns the packages below root, by their folders.
func read(root fs.FS) (map[string]*folder, error) {
	folders := map[string]*folder{}
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name := filepath.Dir(path)
		if folders[name] == nil {
			folders[name] = &folder{imports: map[string]bool{}}
		}
		folders[name].lines += bytes.Count(text, []byte("\n"))
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if inside, ok := strings.CutPrefix(imported, module); ok {
				folders[name].imports[inside] = true
			}
		}
		return nil
	})
	return folders, err
}

// byWing returns the sorted folders of each wing.
func byWing(folders map[string]*folder) map[string][]string {
	members := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		members[wingOf(name)] = append(members[wingOf(name)], name)
	}
	return members
}

func wingNames() []string {
	var names []string
	for _, w := range wings {
		names = append(names, w.name)
	}
	return append(names, "no wing")
}

// printText prints a paragraph for each wing, a line for each package.
func printText(out io.Writer, folders map[string]*folder) {
	members := byWing(folders)
	for _, name := range wingNames() {
		if len(members[name]) == 0 {
			continue
		}
		lines := 0
		for _, member := range members[name] {
			lines += folders[member].lines
		}
		fmt.Fprintf(out, "%s, %d lines\n", name, lines)
		for _, member := range members[name] {
			line := fmt.Sprintf("  %-26s %6d", member, folders[member].lines)
			if imports := slices.Sorted(maps.Keys(folders[member].imports)); len(imports) > 0 {
				line += "  -> " + strings.Join(imports, ", ")
			}
			fmt.Fprintln(out, line)
		}
	}
}

// printDOT prints a graph with a cluster for each wing.
func printDOT(out io.Writer, folders map[string]*folder) {
	members := byWing(folders)
	fmt.Fprintln(out, "digraph imports {\n\trankdir=LR; node [shape=box]")
	for i, name := range wingNames() {
		if len(members[name]) == 0 {
			continue
		}
		fmt.Fprintf(out, "\tsubgraph cluster_%d {\n\t\tlabel=%q\n", i, name)
		for _, member := range members[name] {
			fmt.Fprintf(out, "\t\t%q [label=\"%s\\n%d\"]\n", member, member, folders[member].lines)
		}
		fmt.Fprintln(out, "\t}")
	}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		for _, imported := range slices.Sorted(maps.Keys(folders[name].imports)) {
			fmt.Fprintf(out, "\t%q -> %q\n", name, imported)
		}
	}
	fmt.Fprintln(out, "}")
}

func main() {
	dot := flag.Bool("dot", false, "print a graph for Graphviz")
	flag.Parse()
	folders, err := read(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the imports:", err)
		os.Exit(1)
	}
	if *dot {
		printDOT(os.Stdout, folders)
	} else {
		printText(os.Stdout, folders)
	}
}
