//go:build !race

package memseg

// storeRelease stores v with release semantics: whoever sees v sees every store
// before it. On amd64 every store has them, and the compiler keeps stores in
// program order. An atomic store would also order it before later loads: it waits
// until all stores before it have left the core, which nobody needs here.
func storeRelease(p *uint64, v uint64) { *p = v }

func storeRelease32(p *uint32, v uint32) { *p = v }
