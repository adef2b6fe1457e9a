//go:build !race

package memseg

// storeRelease stores v with release semantics: whoever sees v sees every store
// before it. It is the instruction of an atomic store, which this processor does
// not order before later plain loads.
//
//go:noescape
func storeRelease(p *uint64, v uint64)

//go:noescape
func storeRelease32(p *uint32, v uint32)
