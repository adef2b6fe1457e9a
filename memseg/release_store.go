//go:build !(amd64 || arm64) || race

package memseg

import "sync/atomic"

func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
