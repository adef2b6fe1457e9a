package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var small = fstest.MapFS{
	"writer/a.go":         {Data: []byte("package writer\n\nimport (\n\t\"os\"\n\t\"shuffled/memseg\"\n)\n")},
	"writer/b.go":         {Data: []byte("package writer\n\nimport \"shuffled/shuffle\"\n")},
	"writer/a_test.go":    {Data: []byte("package writer\n\nimport \"shuffled/internal/test/linktest\"\n")},
	"memseg/a.go":         {Data: []byte("package memseg\n")},
	"testdata/ignored.go": {Data: []byte("no Go")},
}

func TestPackagesArePrintedByWingWithArrowsAndLines(t *testing.T) {
	folders, err := read(small)
	require.NoError(t, err)
	var out strings.Builder
	printText(&out, folders)
	require.Equal(t, "users, 9 lines\n"+
		"  writer                          9  -> memseg, shuffle\n"+
		"data path, 1 lines\n"+
		"  memseg                          1\n", out.String())
}

func TestGraphHasAClusterForEachWingAndEveryArrow(t *testing.T) {
	folders, err := read(small)
	require.NoError(t, err)
	var out strings.Builder
	printDOT(&out, folders)
	require.Equal(t, `digraph imports {
	rankdir=LR; node [shape=box]
	subgraph cluster_0 {
		label="users"
		"writer" [label="writer\n9"]
	}
	subgraph cluster_1 {
		label="data path"
		"memseg" [label="memseg\n1"]
	}
	"writer" -> "memseg"
	"writer" -> "shuffle"
}
`, out.String())
}

func TestSourceThatIsNoGoIsAnError(t *testing.T) {
	_, err := read(fstest.MapFS{"a/a.go": {Data: []byte("no Go")}})
	require.ErrorContains(t, err, "a/a.go")
}

func TestEveryPackageOfTheProjectHasAWing(t *testing.T) {
	folders, err := read(os.DirFS("../.."))
	require.NoError(t, err)
	require.Contains(t, folders, "memseg")
	for name := range folders {
		require.NotEqual(t, "no wing", wingOf(name), name)
	}
}
