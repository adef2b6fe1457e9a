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
	r := recover()
	if r == nil {
		return
	}
	fault := FaultOf(r, what)
	if fault == nil {
		panic(r)
	}
	*err = fault
}

// FaultOf returns the error of RecoverFault for what recover has returned, or nil if
// that is no fault of memory.
func FaultOf(recovered any, what string) error {
	fault, ok := recovered.(interface {
		error
		Addr() uintptr
	})
	if !ok {
		return nil
	}
	return fmt.Errorf("%s: fault at %#x: %w", what, fault.Addr(), ErrFault)
}
