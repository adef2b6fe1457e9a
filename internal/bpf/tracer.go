package bpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// MaxWatched is how many processes can be watched at a time.
const MaxWatched = 1024

// Options say what to trace besides what is always traced.
type Options struct {
	// Executable is the program whose calls of probe.Publish and probe.Consume are
	// watched for Counts.Handoff, "" for none. Each call of a process that runs it
	// then traps into the kernel.
	Executable string
	// SampleEvery says which latencies are taken: those of buffers whose ordinal is
	// a multiple of it. 0 is 1: those of all buffers.
	SampleEvery uint64

	withoutTracing, withoutProbes bool // see loader
}

// A Tracer holds the programs that count in the kernel. Its methods may be called
// from any goroutine; after Close they return ErrClosed.
type Tracer struct {
	attached *attachments

	mu     sync.RWMutex
	loader *loader // nil once closed
}

// Open loads the programs and attaches them; nothing is counted before Watch. The
// parts attach each on their own: those that cannot are listed by Missing. Where
// none can, the error matches ErrUnsupported. It takes a few tenths of a second.
// The caller must Close the tracer; if the process dies, the kernel does.
func Open(o Options) (*Tracer, error) {
	t, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("open tracer: %w", err)
	}
	return t, nil
}

func open(o Options) (*Tracer, error) {
	if err := checkSupport(); err != nil {
		return nil, err
	}
	spec, err := loadTracer()
	if err != nil {
		return nil, err
	}
	kinds, reasons := callTables()
	for variable, value := range map[string]any{
		tracerVarCallKind: kinds, tracerVarCallReason: reasons, tracerVarSampleEvery: max(o.SampleEvery, 1),
	} {
		if err := spec.Variables[variable].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", variable, err)
		}
	}
	l, err := newLoader(spec)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, ebpf.ErrNotSupported) {
		return nil, unsupported("the kernel refuses (a container or seccomp may be why): %w", err)
	}
	if err != nil {
		return nil, err
	}
	l.withoutTracing, l.withoutProbes = o.withoutTracing, o.withoutProbes
	attached := attachParts(l, o.Executable)
	if len(l.attached) == 0 {
		return nil, errors.Join(unsupported("no part can be attached, the first of them: %s", attached.missing[0]),
			l.close())
	}
	l.spec, l.types = nil, nil // megabytes that nobody needs any more
	return &Tracer{attached: attached, loader: l}, nil
}

// with calls f unless the tracer is closed.
func (t *Tracer) with(f func(l *loader) error) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.loader == nil {
		return ErrClosed
	}
	return f(t.loader)
}

// Watch counts what a process does from now on, with all its threads, as that of
// a role: Producer, Consumer or Daemon. A process that is watched changes its role.
// Processes that it starts are not watched. Whoever watches a process must Unwatch
// it when it ends, since its number may be given to another.
//
// The pid must be that of a process, not of a further thread.
func (t *Tracer) Watch(pid int, r Role) error {
	err := t.with(func(l *loader) error {
		if r == Other || int(r) >= Roles {
			return ErrRole
		}
		if pid <= 0 || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			return ErrNoProcess
		}
		err := l.maps[tracerMapRoles].Put(uint32(pid), uint32(r))
		if errors.Is(err, unix.E2BIG) {
			return ErrTooManyWatched
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("watch process %d as %s: %w", pid, r, err)
	}
	return nil
}

// Unwatch stops counting a process. What was counted stays. It may have ended, or
// not be watched.
func (t *Tracer) Unwatch(pid int) error {
	err := t.with(func(l *loader) error {
		err := l.maps[tracerMapRoles].Delete(uint32(pid))
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		l.forgetThreads(pid)
		return err
	})
	if err != nil {
		return fmt.Errorf("unwatch process %d: %w", pid, err)
	}
	return nil
}

// forgetThreads drops what is known of the threads of a process that is watched no
// more, so that none of it is believed if they are watched again.
func (l *loader) forgetThreads(pid int) {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		if id, err := strconv.ParseUint(thread.Name(), 10, 32); err == nil {
			_ = l.maps[tracerMapThreads].Delete(uint32(id))
		}
	}
}

// Missing returns the parts that could not be attached, and why. It may be called
// after Close.
func (t *Tracer) Missing() []Missing { return slices.Clone(t.attached.missing) }

// Close detaches the programs and gives everything back. The kernel waits until no
// core runs one of them, which takes some tenths of a second, and at times seconds
// on a busy machine. A second Close returns ErrClosed.
func (t *Tracer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loader == nil {
		return ErrClosed
	}
	err := t.loader.close()
	t.loader = nil
	if err != nil {
		return fmt.Errorf("close tracer: %w", err)
	}
	return nil
}
