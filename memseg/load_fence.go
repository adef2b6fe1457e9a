//go:build !amd64 && !arm64

package memseg

import "sync/atomic"

// loadFence keeps loads behind it from being done before those that it follows.
func loadFence() {
	var own atomic.Uint32
	own.Add(1)
}
