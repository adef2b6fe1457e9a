package memseg

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// A Word is a 64-bit word of a shared region. Load and Store are sequentially
// consistent, which the wake-up protocol needs (see docs/wakeup.md). Each word
// has one writing process; it is named where the layout declares the word.
type Word struct{ v atomic.Uint64 }

// Load returns the word.
func (w *Word) Load() uint64 {
	accessPoint()
	return w.v.Load()
}

// loadConstant is Load of a word that nobody stores to: it is no step of a protocol.
func (w *Word) loadConstant() uint64 { return w.v.Load() }

// Store sets the word.
func (w *Word) Store(v uint64) {
	accessPoint()
	w.v.Store(v)
}

// StoreRelease sets the word so that whoever sees v sees every store before it.
// Unlike Store it may be overtaken by later loads, so it is for words that the
// wake-up protocol does not compare; it does not wait for the stores before it.
func (w *Word) StoreRelease(v uint64) {
	accessPoint()
	storeRelease((*uint64)(unsafe.Pointer(&w.v)), v)
}

// or and swap are for the bits of a doorbell, the one object that several
// processes write.
func (w *Word) or(v uint64) {
	accessPoint()
	w.v.Or(v)
}

func (w *Word) swap(v uint64) uint64 {
	accessPoint()
	return w.v.Swap(v)
}

// A Word32 is a 32-bit word of a shared region, with the same rules as Word.
type Word32 struct{ v atomic.Uint32 }

// Load returns the word.
func (w *Word32) Load() uint32 {
	accessPoint()
	return w.v.Load()
}

// Store sets the word.
func (w *Word32) Store(v uint32) {
	accessPoint()
	w.v.Store(v)
}

// storeRelease is StoreRelease of Word.
func (w *Word32) storeRelease(v uint32) {
	accessPoint()
	storeRelease32((*uint32)(unsafe.Pointer(&w.v)), v)
}

func (w *Word32) add(n uint32) {
	accessPoint()
	w.v.Add(n)
}

// The sizes of the words are part of the layout.
var (
	_ [8]byte = [unsafe.Sizeof(Word{})]byte{}
	_ [4]byte = [unsafe.Sizeof(Word32{})]byte{}
)

// Word returns the 64-bit word at offset, which the layout has validated: one
// outside the region or not aligned to 8 is a broken invariant of ours.
func (r *Region) Word(offset int) *Word {
	checkWord(r, offset, 8)
	return (*Word)(unsafe.Pointer(&r.mem[offset]))
}

// Word32 returns the 32-bit word at offset; see Word.
func (r *Region) Word32(offset int) *Word32 {
	checkWord(r, offset, 4)
	return (*Word32)(unsafe.Pointer(&r.mem[offset]))
}

func checkWord(r *Region, offset, width int) {
	if offset < 0 || offset > len(r.mem)-width || offset%width != 0 {
		panic(fmt.Sprintf("memseg: word of %d bytes at %d of region %q of %d bytes", width, offset, r.name, len(r.mem)))
	}
}

// alignedBytes returns zeroed heap memory that starts on a line boundary, as a
// mapping does.
func alignedBytes(size int) []byte {
	b := make([]byte, size+lineSize)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) % lineSize)
	return b[skip : skip+size : skip+size]
}
