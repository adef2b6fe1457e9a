// Package misuse calls everything that a package exports with nothing: methods of
// nil pointers and zero values, functions with nil and zero arguments. No such call may
// panic, and each that returns an error returns one that says what is missing.
package misuse

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Package says what is called. Together, its fields must name everything that the
// package in the working directory exports, unless Rest is set.
type Package struct {
	// Types holds a nil pointer to each type whose methods are called, of it and of its
	// zero value.
	Types []any
	// Functions are called; a generic one is an instance, under its plain name.
	Functions map[string]any
	// Left names functions, types, methods (Type.Method) and nil pointers (Type(nil)) that
	// are not called, and why.
	Left map[string]string
	// Rest says, of a package that users have a part of only, why nothing else is
	// called.
	Rest string
	// Errors are the kinds of error that a call may return.
	Errors []error
	// Fine names functions and methods to which nothing is a sensible argument: their
	// error is nil at least once.
	Fine []string

	wasLeft, wasFine map[string]bool // of Left and Fine
}

// Check makes all calls.
func Check(t *testing.T, p Package) {
	t.Helper()
	exported, ofTests := exports(t)
	called := make(map[string]bool)
	p.wasLeft, p.wasFine = make(map[string]bool), make(map[string]bool)
	for _, v := range p.Types {
		typ := reflect.TypeOf(v).Elem()
		name, _, _ := strings.Cut(typ.Name(), "[") // of a generic type
		called[name] = true
		p.callMethods(t, name, typ, ofTests)
	}
	for name, f := range p.Functions {
		called[name] = true
		p.call(t, name, reflect.ValueOf(f))
	}
	for name := range exported {
		_, isLeft := p.Left[name]
		require.True(t, called[name] != isLeft || p.Rest != "",
			"%s is exported: either it is called with nothing, or the test says why not", name)
	}
	for name := range called {
		require.True(t, exported[name], "%s is not there any more", name)
	}
	for name := range p.Left {
		require.True(t, exported[name] || p.wasLeft[name], "%s is not there any more", name)
	}
	for _, name := range p.Fine {
		require.True(t, p.wasFine[name], "%s of nothing returns an error, or is not called", name)
	}
}

// exports returns the exported functions, and the exported types that have exported
// methods, of the package in the working directory, and the methods that are there for
// its tests only.
func exports(t *testing.T) (names, ofTests map[string]bool) {
	t.Helper()
	names, ofTests = make(map[string]bool), make(map[string]bool)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				name = receiver(f.Recv.List[0].Type)
			}
			switch {
			case strings.HasSuffix(file, "_test.go"):
				ofTests[name+"."+f.Name.Name] = true
			case ast.IsExported(name):
				names[name] = true
			}
		}
	}
	return names, ofTests
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// callMethods calls the methods of a nil pointer and of a zero value. A method of the
// value itself cannot be called by a nil pointer: the language forbids it.
func (p *Package) callMethods(t *testing.T, name string, typ reflect.Type, ofTests map[string]bool) {
	pointer := reflect.PointerTo(typ)
	for i := range pointer.NumMethod() {
		method := pointer.Method(i)
		full := name + "." + method.Name
		if p.leaves(full) || ofTests[full] {
			continue
		}
		p.call(t, full, reflect.New(typ).Method(i))
		_, ofValue := typ.MethodByName(method.Name)
		if !ofValue && !p.leaves(name+"(nil)") {
			p.call(t, full, reflect.Zero(pointer).Method(i))
		}
	}
}

// leaves reports whether a method or a nil pointer is not called.
func (p *Package) leaves(name string) bool {
	_, isLeft := p.Left[name]
	p.wasLeft[name] = isLeft
	return isLeft
}

var (
	errorType   = reflect.TypeFor[error]()
	contextType = reflect.TypeFor[context.Context]()
)

// call calls f with zero arguments, and with contexts where it takes them.
func (p *Package) call(t *testing.T, name string, f reflect.Value) {
	typ := f.Type()
	for _, ctx := range []context.Context{nil, context.Background()} {
		var args []reflect.Value
		for i := range typ.NumIn() {
			switch in := typ.In(i); {
			case in == contextType && ctx != nil:
				args = append(args, reflect.ValueOf(ctx))
			case typ.IsVariadic() && i == typ.NumIn()-1:
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		p.judge(t, name, func() []reflect.Value { return f.Call(args) })
		if typ.IsVariadic() {
			args = append(args, reflect.Zero(typ.In(typ.NumIn()-1).Elem()))
			p.judge(t, name+" of a nil", func() []reflect.Value { return f.Call(args) })
		}
	}
}

// judge makes a call and looks at what it returns.
func (p *Package) judge(t *testing.T, name string, call func() []reflect.Value) {
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s panics: %v\n%s", name, r, debug.Stack())
		}
	}()
	for _, result := range call() {
		switch typ := result.Type(); {
		case typ == errorType:
			err, _ := result.Interface().(error)
			p.judgeError(t, name, err)
		case typ.Kind() == reflect.Func && typ.CanSeq2() && typ.In(0).In(1) == errorType: // an iterator
			for _, err := range result.Seq2() {
				p.judgeError(t, name, err.Interface().(error))
			}
		}
	}
}

func (p *Package) judgeError(t *testing.T, name string, err error) {
	if err == nil {
		if p.wasFine[name] = true; !slices.Contains(p.Fine, name) {
			t.Errorf("%s of nothing returns no error", name)
		}
		return
	}
	_ = fmt.Sprint(err) // the text is made now
	if !slices.ContainsFunc(p.Errors, func(kind error) bool { return errors.Is(err, kind) }) {
		t.Errorf("%s of nothing returns %q, which is of none of the kinds", name, err)
	}
}
