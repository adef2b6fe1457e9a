//go:build race || schedules

package memseg

import (
	"math/rand/v2"
	"runtime"
)

func init() {
	accessesAreSlow = true
	yieldAtAccesses = func() (stop func()) {
		SetScheduler(yields{})
		return func() { SetScheduler(nil) }
	}
}

// yields lets another goroutine run before some accesses to shared words.
type yields struct{}

func (yields) Access() {
	if rand.IntN(16) == 0 {
		runtime.Gosched()
	}
}

func (yields) Sleep(*Word32, func() bool) bool { return false }
func (yields) Wake(*Word32) bool               { return false }
