package houserules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// A sourceFile is one Go file of the project that is written by hand.
type sourceFile struct {
	path string // from the project's root
	ast  *ast.File
	file *token.File
}

func (f sourceFile) folder() string { return filepath.ToSlash(filepath.Dir(f.path)) }
func (f sourceFile) isTest() bool   { return strings.HasSuffix(f.path, "_test.go") }

func (f sourceFile) imports() []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, path)
	}
	return paths
}

func sources(t *testing.T) []sourceFile {
	t.Helper()
	files, err := parseSources()
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

var parseSources = sync.OnceValues(func() ([]sourceFile, error) {
	var files []sourceFile
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, sourceFile{path: rel, ast: parsed, file: fset.File(parsed.Pos())})
		return err
	})
	return files, err
})

func TestUnsafeLivesInFilesNamedSo(t *testing.T) {
	for _, f := range sources(t) {
		if slices.Contains(f.imports(), "unsafe") {
			name := strings.TrimSuffix(strings.TrimSuffix(f.path, ".go"), "_test")
			require.True(t, strings.HasSuffix(name, "_unsafe"), "%s imports unsafe", f.path)
		}
	}
}

// The typed atomics (atomic.Uint64 …) cannot be laid over mapped memory without
// unsafe; the functions on pointers can, so they stay where one looks for them.
func TestAtomicFunctionsOnPointersLiveInUnsafeFiles(t *testing.T) {
	heapOnly := []string{"memseg/acquire_load.go", "memseg/release_store.go"}
	for _, f := range sources(t) {
		if strings.Contains(f.path, "_unsafe") || slices.Contains(heapOnly, filepath.ToSlash(f.path)) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Name == "atomic" {
				for _, prefix := range []string{"Load", "Store", "Add", "Swap", "CompareAndSwap", "And", "Or"} {
					require.False(t, strings.HasPrefix(selector.Sel.Name, prefix), "%s calls atomic.%s", f.path,
						selector.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestImportsFollowTheArrows(t *testing.T) {
	allowed := map[string][]string{
		"memseg":             {},
		"pool":               {"memseg", "internal/cpucache"},
		"shuffle":            {"memseg"},
		"writer":             {"memseg", "shuffle", "internal/partition"},
		"reader":             {"shuffle", "internal/gate"},
		"shuffle/protocodec": {"shuffle"},
		"internal/partition": {"memseg", "pool", "shuffle", "internal/probe", "internal/cpucache",
			"internal/standstill", "internal/foreigntext"},
		"internal/gate": {"memseg", "shuffle", "internal/partition", "internal/cpucache",
			"internal/standstill"},
		"ipc": {"shuffle", "memseg", "pool", "ipc/controlpb", "internal/foreigntext"},
		"internal/daemon": {"memseg", "pool", "shuffle", "ipc", "ipc/controlpb", "internal/daemon/registry",
			"internal/throttle", "internal/foreigntext"},
		"ipc/controlpb":            {},
		"internal/daemon/registry": {"shuffle", "internal/foreigntext"},
		"client": {"memseg", "pool", "shuffle", "internal/partition", "internal/gate",
			"internal/daemon", "ipc", "ipc/controlpb", "internal/foreigntext"},
		"internal/sentinel":   {},
		"internal/ctxerr":     {},
		"internal/absent":     {},
		"internal/opened":     {},
		"internal/invariants": {},
		"internal/standstill": {},
	}
	everywhere := []string{"internal/sentinel", "internal/ctxerr", "internal/absent", "internal/opened",
		"internal/invariants"}
	for _, f := range sources(t) {
		arrows, ok := allowed[f.folder()]
		if !ok || f.isTest() {
			continue
		}
		for _, path := range f.imports() {
			if inside, ok := strings.CutPrefix(path, "shuffled/"); ok && !slices.Contains(everywhere, inside) {
				require.Contains(t, arrows, inside, "%s imports it", f.path)
			}
		}
	}
}

// A worker runs without a daemon's code: only a client that has the daemon in it
// links that.
func TestWorkersImportNothingOfTheDaemon(t *testing.T) {
	ofDaemon := []string{"internal/daemon", "internal/daemon/registry", "internal/throttle"}
	imports := map[string][]string{}
	for _, f := range sources(t) {
		if f.isTest() || filepath.ToSlash(f.path) == "client/embedded.go" {
			continue
		}
		for _, path := range f.imports() {
			if inside, ok := strings.CutPrefix(path, "shuffled/"); ok {
				imports[f.folder()] = append(imports[f.folder()], inside)
			}
		}
	}
	for _, worker := range []string{"client", "shuffle", "writer", "reader"} {
		require.NotEmpty(t, imports[worker])
		reached := []string{worker}
		for i := 0; i < len(reached); i++ {
			for _, path := range imports[reached[i]] {
				require.NotContains(t, ofDaemon, path, "%s imports it, and %s needs that", reached[i], worker)
				if !slices.Contains(reached, path) {
					reached = append(reached, path)
				}
			}
		}
	}
}

// Users have a producer's packages and a consumer's. What they see of them is no
// host's.
func TestUsersNeedNothingOfTheHost(t *testing.T) {
	forUsers := []string{"client", "shuffle", "writer", "reader", "shuffle/protocodec"}
	ofHosts := []string{"partition", "gate", "pool", "registry", "ipc", "controlpb"}
	for _, f := range sources(t) {
		isExample := filepath.Base(f.path) == "example_test.go"
		for _, path := range f.imports() {
			inside, ours := strings.CutPrefix(path, "shuffled/")
			switch {
			case !ours:
			case isExample && slices.Contains(forUsers, f.folder()):
				require.Contains(t, forUsers, inside, "%s imports it", f.path)
			case (f.folder() == "bench" || strings.HasPrefix(f.folder(), "cmd/")) && !f.isTest():
				require.NotContains(t, []string{"internal/partition", "internal/gate"}, inside, "%s imports it", f.path)
			}
		}
		if !slices.Contains(forUsers, f.folder()) || f.isTest() {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() || !ast.IsExported(strings.TrimSuffix(receiver(fn), ".")) &&
				fn.Recv != nil {
				continue
			}
			ast.Inspect(fn.Type, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok {
					require.NotContains(t, ofHosts, selector.X.(*ast.Ident).Name, "%s.%s%s shows it", f.folder(),
						receiver(fn), fn.Name.Name)
				}
				return true
			})
		}
	}
}

// An example shows what a user imports: what it takes to produce, or to consume.
func TestExamplesImportTheirSideAlone(t *testing.T) {
	programs := 0
	for _, f := range sources(t) {
		if !strings.HasPrefix(f.folder(), "examples/") || f.isTest() {
			continue
		}
		programs++
		var ours []string
		for _, path := range f.imports() {
			if inside, ok := strings.CutPrefix(path, "shuffled/"); ok {
				ours = append(ours, inside)
			}
		}
		side := "writer"
		if slices.Contains(ours, "reader") {
			side = "reader"
		}
		require.Subset(t, []string{"client", "shuffle", side}, ours, "%s", f.path)
	}
	require.NotZero(t, programs, "no example was found")
}

// What internal/test holds is linked by tests alone: by files of tests, and by the
// packages there.
func TestProductImportsNothingOfTests(t *testing.T) {
	const forTests = "internal/test/"
	onlyInTests := []string{"testing", "github.com/stretchr/testify", "go.uber.org/goleak", "shuffled/" + forTests}
	for _, f := range sources(t) {
		if f.isTest() || strings.HasPrefix(f.folder(), forTests) {
			continue
		}
		for _, path := range f.imports() {
			for _, prefix := range onlyInTests {
				require.False(t, strings.HasPrefix(path+"/", strings.TrimSuffix(prefix, "/")+"/"), "%s imports %s",
					f.path, path)
			}
		}
	}
}

// Whatever may block can be given up.
func TestBlockingCallsTakeAContext(t *testing.T) {
	blocking := []string{
		"Dial", "CreatePartition", "OpenGate", "List", "Inspect", "Next", "Records", "Elements", "WaitAny",
		"WaitAvailable", "Emit", "EmitTo", "Broadcast",
		"BroadcastEvent", "EmitRecord", "BroadcastRecord", "Reserve", "Finish", "Fail", "Park", "Drain", "Shutdown",
	}
	skip := map[string]bool{
		"memseg BufferBuilder.Reserve": true, // bytes of the open segment, or none
		"memseg BufferBuilder.Finish":  true,
		"memseg QueueReader.Next":      true, // a number
		"writer Broadcast":             true, // a selector
	}
	seen := map[string]bool{}
	for _, f := range sources(t) {
		switch f.folder() {
		case "memseg", "internal/partition", "internal/gate", "writer", "reader", "ipc", "internal/daemon", "client":
		default:
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || f.isTest() || !slices.Contains(blocking, fn.Name.Name) {
				continue
			}
			name := f.folder() + " " + receiver(fn) + fn.Name.Name
			if skip[name] {
				continue
			}
			seen[fn.Name.Name] = true
			require.NotEmpty(t, fn.Type.Params.List, "%s has no context", name)
			selector, ok := fn.Type.Params.List[0].Type.(*ast.SelectorExpr)
			require.True(t, ok && selector.Sel.Name == "Context", "%s does not begin with a context", name)
		}
	}
	for _, name := range blocking {
		require.True(t, seen[name], "no function %s: does the list of this test still fit?", name)
	}
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch typ := typ.(type) {
	case *ast.Ident:
		return typ.Name + "."
	case *ast.IndexExpr:
		return typ.X.(*ast.Ident).Name + "."
	}
	return ""
}

func TestEveryPackageHasADocumentAndAnExample(t *testing.T) {
	packages := []string{"memseg", "pool", "shuffle", "writer", "reader", "shuffle/protocodec", "ipc", "client",
		"bench"}
	documented, shown := map[string]bool{}, map[string]bool{}
	for _, f := range sources(t) {
		if filepath.Base(f.path) == "doc.go" && f.ast.Doc != nil {
			documented[f.folder()] = true
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.isTest() && strings.HasPrefix(fn.Name.Name, "Example") {
				shown[f.folder()] = true
			}
		}
	}
	for _, p := range packages {
		require.True(t, documented[p], "package %s has no doc.go", p)
		require.True(t, shown[p], "package %s has no Example", p)
	}
}
