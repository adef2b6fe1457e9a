package memseg

// A Goroutine tells a goroutine from others that exist at the same time.
type Goroutine uintptr

// ThisGoroutine returns the one that calls.
func ThisGoroutine() Goroutine { return Goroutine(goroutine()) }
