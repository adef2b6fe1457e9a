//go:build !race

package memseg

// storeRelease stores v with release semantics: whoever sees v sees every store
// before it. On amd64 every store has them, and the compiler keeps stores in
// program order; an atomic store would also order it before later loads, which
// costs several times as much and which nobody needs here.
func storeRelease(p *uint64, v uint64) { *p = v }
