package reader

import (
	"os"
	"strconv"
	"strings"
)

// maxThreshold is a core's second-level cache: the first part of a batch of that
// size has left the producer's core by the time it is read, and two sleeps are
// worth it.
var maxThreshold = secondLevelCache()

// secondLevelCache returns the size of the second-level cache in bytes, 1 MiB
// where the kernel does not tell.
func secondLevelCache() int {
	const unknown = 1 << 20
	b, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cache/index2/size")
	if err != nil {
		return unknown
	}
	kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(string(b)), "K"))
	if err != nil || kib < 64 || kib > 1<<20 {
		return unknown
	}
	return kib << 10
}
