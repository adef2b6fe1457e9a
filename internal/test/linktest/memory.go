package linktest

import (
	"sync"

	"github.com/stretchr/testify/require"

	"shuffled/memseg"
)

// Memory is what a link is made of.
type Memory string

// Heap memory is seen by the race detector; Mapped memory is what production
// uses.
const (
	Heap   Memory = "heap"
	Mapped Memory = "mmap"
)

// Memories lists both, for tests that run over each.
var Memories = []Memory{Heap, Mapped}

// objects are the shared objects of a link or gate and who uses them.
type objects struct {
	t      TB
	memory Memory

	mu    sync.Mutex
	inUse map[string]int // mappings and references that were not given up
	pins  map[object]*memseg.Region
}

// An object is one shared object: heap memory, or a memfd that can be mapped
// many times.
type object struct {
	name  string
	heap  *memseg.Region
	memfd *memseg.Memfd
}

func newObjects(t TB, memory Memory) *objects {
	o := &objects{t: t, memory: memory, inUse: make(map[string]int), pins: make(map[object]*memseg.Region)}
	atEnd(t).check(o.requireUnused)
	return o
}

func (o *objects) requireUnused() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, n := range o.inUse {
		if n != 0 {
			o.t.Errorf("%d mappings of the %s are left", n, name)
		}
	}
	for _, region := range o.pins {
		require.NoError(o.t, region.Close())
	}
}

func (o *objects) create(name string, size int64) object {
	o.t.Helper()
	if o.memory == Heap {
		return object{name: name, heap: memseg.NewHeapRegion(name, int(size))}
	}
	memfd, err := memseg.CreateMemfd(name, size)
	require.NoError(o.t, err)
	atEnd(o.t).check(func() { require.NoError(o.t, memfd.Close()) })
	return object{name: name, memfd: memfd}
}

// use maps an object for one party, which calls unmap exactly once.
func (o *objects) use(obj object, access memseg.Access) (region *memseg.Region, unmap func()) {
	o.t.Helper()
	if obj.heap != nil {
		return obj.heap, o.share(obj.heap)
	}
	region, err := obj.memfd.Map(access, 0)
	require.NoError(o.t, err)
	return region, o.once(obj.name, region.Close)
}

// share takes a further reference of a party's mapping, to be given up exactly
// once.
func (o *objects) share(region *memseg.Region) (release func()) {
	o.t.Helper()
	require.NoError(o.t, region.Retain())
	return o.once(region.Name(), region.Release)
}

func (o *objects) once(name string, release func() error) func() {
	o.count(name, 1)
	return func() {
		o.count(name, -1)
		if err := release(); err != nil {
			o.t.Errorf("give up the %s: %v", name, err)
		}
	}
}

func (o *objects) count(name string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inUse[name] += n
	if o.inUse[name] < 0 {
		o.t.Errorf("the %s was given up more often than it was mapped", name)
	}
}

// pin maps an object for the test itself, until its end.
func (o *objects) pin(obj object) *memseg.Region {
	o.t.Helper()
	if obj.heap != nil {
		return obj.heap
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if region, ok := o.pins[obj]; ok {
		return region
	}
	region, err := obj.memfd.Map(memseg.ReadWrite, 0)
	require.NoError(o.t, err)
	o.pins[obj] = region
	return region
}
