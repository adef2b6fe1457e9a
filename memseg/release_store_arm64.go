//go:build !race

package memseg

// storeRelease stores v with release semantics: whoever sees v sees every store
// before it. A plain atomic store would also order it before later loads, which
// costs several times as much and which nobody needs here.
//
//go:noescape
func storeRelease(p *uint64, v uint64)
