package memseg

import "sync/atomic"

// loadAcquire reads what storeRelease stored.
func loadAcquire(p *uint64) uint64 { return atomic.LoadUint64(p) }
