package memseg

import "unsafe"

// A Place says where on its stack a goroutine is, by blocks of the smallest size that
// the stack of a goroutine has, to which each is aligned: no two goroutines that exist
// at the same time are at the same place. It costs no more than the address of a
// variable. One goroutine is at several places, as deep as it calls.
type Place uintptr

// stackBlockBits is the binary logarithm of that size.
const stackBlockBits = 11

// PlaceOf returns the place of the caller, who passes a variable on its stack.
func PlaceOf[T any](local *T) Place { return Place(uintptr(unsafe.Pointer(local)) >> stackBlockBits) }
