//go:build amd64 || arm64

package memseg

// goroutine returns the address of the runtime's description of this goroutine.
func goroutine() uintptr
