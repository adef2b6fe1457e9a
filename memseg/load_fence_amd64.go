package memseg

// loadFence keeps loads behind it from being done before those that it follows. On
// amd64 no load overtakes another one, and the compiler keeps them behind each other.
func loadFence() {}
