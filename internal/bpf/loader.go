package bpf

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A loader brings programs into the kernel, one part after the other, and keeps
// what it has attached. It is used by one goroutine at a time.
type loader struct {
	spec  *ebpf.CollectionSpec
	maps  map[string]*ebpf.Map
	types *btf.Cache
	// withoutTracing and withoutProbes refuse to trace and to probe functions of the
	// kernel, as some kernels do.
	withoutTracing, withoutProbes bool

	attached []attachment
}

// An attachment is a program in its place.
type attachment struct {
	name    string
	program *ebpf.Program
	place   io.Closer
}

func (a attachment) close() error { return errors.Join(a.place.Close(), a.program.Close()) }

// newLoader makes the maps.
func newLoader(spec *ebpf.CollectionSpec) (*loader, error) {
	l := &loader{spec: spec, types: btf.NewCache()}
	collection, err := ebpf.NewCollectionWithOptions(
		&ebpf.CollectionSpec{Maps: spec.Maps, Variables: spec.Variables, Types: spec.Types, ByteOrder: spec.ByteOrder},
		ebpf.CollectionOptions{Cache: l.types})
	if err != nil {
		return nil, fmt.Errorf("create maps: %w", err)
	}
	l.maps = collection.Maps
	return l, nil
}

// close detaches and unloads everything.
func (l *loader) close() error {
	err := closeAll(l.attached)
	for _, m := range l.maps {
		err = errors.Join(err, m.Close())
	}
	return err
}

func closeAll(attached []attachment) (err error) {
	for _, a := range attached {
		err = errors.Join(err, a.close())
	}
	return err
}

// A hook is a program and where it goes.
type hook struct {
	program string
	// function is what to attach to; "" means what the source of the program says.
	function string
	// attach attaches the loaded program; nil means by the types of the kernel.
	attach func(p *ebpf.Program) (io.Closer, error)
}

// attach loads and attaches programs, all or none.
func (l *loader) attach(hooks ...hook) error {
	var attached []attachment
	for _, h := range hooks {
		a, err := l.attachOne(h)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", h.program, err), closeAll(attached))
		}
		attached = append(attached, a)
	}
	l.attached = append(l.attached, attached...)
	return nil
}

func (l *loader) attachOne(h hook) (attachment, error) {
	spec := l.spec.Programs[h.program].Copy()
	if h.function != "" {
		spec.AttachTo = h.function
	}
	program, err := l.load(spec)
	if err != nil {
		return attachment{}, err
	}
	var place io.Closer
	if h.attach != nil {
		place, err = h.attach(program)
	} else {
		place, err = link.AttachTracing(link.TracingOptions{Program: program})
	}
	if err != nil {
		return attachment{}, errors.Join(fmt.Errorf("attach to %s: %w", spec.AttachTo, err), program.Close())
	}
	return attachment{h.program, program, place}, nil
}

// load loads one program over the maps that exist.
func (l *loader) load(spec *ebpf.ProgramSpec) (*ebpf.Program, error) {
	traces := spec.AttachType == ebpf.AttachTraceFEntry || spec.AttachType == ebpf.AttachTraceFExit
	probes := strings.HasPrefix(spec.SectionName, "kprobe/")
	if traces && l.withoutTracing || probes && l.withoutProbes {
		return nil, errors.New("load: not wanted")
	}
	collection, err := ebpf.NewCollectionWithOptions(
		&ebpf.CollectionSpec{
			Maps: l.spec.Maps, Types: l.spec.Types, ByteOrder: l.spec.ByteOrder,
			Programs: map[string]*ebpf.ProgramSpec{spec.Name: spec},
		},
		ebpf.CollectionOptions{MapReplacements: l.maps, Cache: l.types})
	if errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("load: the kernel or a security policy does not allow %s programs: %w",
			strings.TrimSuffix(spec.SectionName, spec.AttachTo), unix.EPERM)
	}
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer collection.Close()
	return collection.DetachProgram(spec.Name), nil
}

// exists reports whether the kernel describes a function.
func (l *loader) exists(function string) (bool, error) {
	kernel, err := l.types.Kernel()
	if err != nil {
		return false, fmt.Errorf("read types of the kernel: %w", err)
	}
	var found *btf.Func
	err = kernel.TypeByName(function, &found)
	if errors.Is(err, btf.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// skipped returns how often the kernel did not run a program that it should have.
func (l *loader) skipped() (uint64, error) {
	var n uint64
	for _, a := range l.attached {
		if a.name == tracerProgTimerBegins || a.name == tracerProgTimerEnds {
			continue // a timer that interrupts another: nothing is counted
		}
		stats, err := a.program.Stats()
		if err != nil {
			return 0, fmt.Errorf("read statistics of %s: %w", a.name, err)
		}
		n += stats.RecursionMisses
	}
	return n, nil
}
