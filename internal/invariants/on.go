//go:build invariants

package invariants

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// Enabled reports whether this is a build with the tag invariants.
const Enabled = true

// PoisonByte is what released memory is filled with.
const PoisonByte = 0xdb

// Poison fills memory that nobody may read any more.
func Poison(mem []byte) {
	for i := range mem {
		mem[i] = PoisonByte
	}
}

// Releases remembers, for each number, who released it last. Its methods may be called
// from any goroutine. The zero value is empty.
type Releases struct {
	mu     sync.Mutex
	stacks map[int]*stack
}

type stack struct {
	callers [32]uintptr
	depth   int
}

// Remember notes that the caller releases n.
func (r *Releases) Remember(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stacks[n]
	if s == nil {
		if r.stacks == nil {
			r.stacks = make(map[int]*stack)
		}
		s = &stack{}
		r.stacks[n] = s
	}
	s.depth = runtime.Callers(2, s.callers[:])
}

// First returns the stack of who has released n before, for the end of a message, or
// nothing if nobody has.
func (r *Releases) First(n int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stacks[n]
	if s == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("; first released by")
	frames := runtime.CallersFrames(s.callers[:s.depth])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		fmt.Fprintf(&b, "\n\t%s\n\t\t%s:%d", f.Function, f.File, f.Line)
	}
	return b.String()
}
