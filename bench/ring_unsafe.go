package bench

import (
	"sync/atomic"
	"unsafe"
)

// A ringWord is a 64-bit word of a ring, stored by one process and loaded by the
// other. A load that sees a store sees all that was stored before it.
type ringWord struct{ v atomic.Uint64 }

func (w *ringWord) load() uint64   { return w.v.Load() }
func (w *ringWord) store(v uint64) { w.v.Store(v) }

// wordOfRing returns the word at offset, a multiple of 8 within a mapping.
func wordOfRing(mem []byte, offset int) *ringWord {
	return (*ringWord)(unsafe.Pointer(&mem[offset : offset+8][0]))
}
