// Package opened remembers where this process opened what it has to close, so that a
// test that finds something left can name the place. It remembers nothing until
// Trace is called, which only tests do: until then a call costs one load, beside a
// system call.
package opened

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A callStack has the innermost frame first.
type callStack []uintptr

var (
	tracing atomic.Bool

	mu          sync.Mutex
	descriptors = map[int]descriptor{}
	mappings    = map[any]mapping{}
)

type descriptor struct {
	target string // what it refers to: a number is soon given to something else
	opened callStack
}

type mapping struct {
	name   string
	opened callStack
}

// Trace has everything remembered that is opened from now on.
func Trace() { tracing.Store(true) }

// Descriptors remembers the caller's stack for each descriptor that is not negative.
// That one is closed need not be told.
func Descriptors(fds ...int) {
	if !tracing.Load() {
		return
	}
	here := callers()
	mu.Lock()
	defer mu.Unlock()
	for _, fd := range fds {
		if target, err := Target(fd); err == nil {
			descriptors[fd] = descriptor{target, here}
		}
	}
}

// Mapping remembers the caller's stack for a mapping, until Unmapped is called with
// the same key. A key can be compared.
func Mapping(key any, name string) {
	if !tracing.Load() {
		return
	}
	here := callers()
	mu.Lock()
	defer mu.Unlock()
	mappings[key] = mapping{name, here}
}

// Unmapped forgets a mapping.
func Unmapped(key any) {
	if !tracing.Load() {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	delete(mappings, key)
}

// Target returns what a descriptor of this process refers to, as /proc has it.
func Target(fd int) (string, error) { return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)) }

// DescriptorStack returns the stack that opened a descriptor, a line for each call, or
// "" if nobody has told of it.
func DescriptorStack(fd int, target string) string {
	mu.Lock()
	defer mu.Unlock()
	if known, ok := descriptors[fd]; ok && known.target == target {
		return known.opened.String()
	}
	return ""
}

// Mappings returns what is mapped, by its key: the name and the stack that mapped it.
func Mappings() map[any]string {
	mu.Lock()
	defer mu.Unlock()
	all := make(map[any]string, len(mappings))
	for key, m := range mappings {
		all[key] = fmt.Sprintf("mapping of %q\n%s", m.name, m.opened)
	}
	return all
}

func callers() callStack {
	stack := make(callStack, 32)
	return stack[:runtime.Callers(3, stack)] // the caller of who called this package
}

func (c callStack) String() string {
	var text strings.Builder
	frames := runtime.CallersFrames(c)
	for {
		frame, more := frames.Next()
		fmt.Fprintf(&text, "\t%s\n\t\t%s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return text.String()
		}
	}
}
