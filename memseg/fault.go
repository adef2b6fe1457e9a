package memseg

import (
	"fmt"
	"runtime/debug"
)

// RecoverFault makes a fault of foreign memory in the function that defers it into
// *err, which wraps ErrFault with what was being done and the address. It is the
// last line of defence, behind sealed sizes and committed memory. Use it as
//
//	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "read partition", &err)
//
// Other panics go on.
func RecoverFault(old bool, what string, err *error) {
	debug.SetPanicOnFault(old)
	switch r := recover().(type) {
	case nil:
	case interface {
		error
		Addr() uintptr
	}:
		*err = fmt.Errorf("%s: fault at %#x: %w", what, r.Addr(), ErrFault)
	default:
		panic(r)
	}
}
