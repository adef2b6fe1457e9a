// Package cpucache tells how large the processor's caches are.
package cpucache

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// Unknown is the size of the second level where the kernel does not tell.
const Unknown = 1 << 20

// SecondLevel returns the size of a core's second-level cache in bytes.
var SecondLevel = sync.OnceValue(func() int {
	const file = "/sys/devices/system/cpu/cpu0/cache/index2/size"
	b, err := os.ReadFile(file)
	if err != nil {
		return Unknown
	}
	return parse(string(b))
})

// parse reads a size as in "2048K".
func parse(s string) int {
	kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(s), "K"))
	if err != nil || kib < 64 || kib > 1<<20 {
		return Unknown
	}
	return kib << 10
}
