package memseg

import (
	"fmt"
	"runtime/debug"
)

// GuardFaults makes a fault of foreign memory, while the calling function runs,
// into *err, which wraps ErrFault with what was being done and the address. It
// is the last line of defence, behind sealed sizes and committed memory. Use it as
//
//	defer memseg.GuardFaults("read partition", &err)()
//
// Other panics go on.
func GuardFaults(what string, err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		leaveFault(recover(), what, err)
	}
}

// RecoverFault is GuardFaults without its allocations, for hot paths. Use it as
//
//	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "read partition", &err)
func RecoverFault(old bool, what string, err *error) {
	debug.SetPanicOnFault(old)
	leaveFault(recover(), what, err)
}

func leaveFault(recovered any, what string, err *error) {
	switch r := recovered.(type) {
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
