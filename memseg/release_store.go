//go:build !(amd64 || arm64) || race

package memseg

import "sync/atomic"

func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

func storeRelease32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
