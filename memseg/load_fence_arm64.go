package memseg

// loadFence keeps loads behind it from being done before those that it follows. An
// atomic load would only keep those behind it back.
//
//go:noescape
func loadFence()
