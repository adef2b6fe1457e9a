package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"shuffled/memseg"
)

// A sharedObject is a shared memory object that a process has a descriptor of.
type sharedObject struct {
	path   string // of the descriptor, below /proc
	kind   sharedKind
	inode  uint64
	size   int64
	backed int64 // memory that the kernel holds for it
}

// A sharedKind is what a daemon has a shared object for.
type sharedKind int

const (
	sharedPartition sharedKind = iota
	sharedGate
	sharedDoorbell
)

var sharedKinds = map[string]sharedKind{
	"/memfd:shuffled-partition-": sharedPartition,
	"/memfd:shuffled-gate":       sharedGate,
	"/memfd:shuffled-doorbell":   sharedDoorbell,
}

// sharedObjects returns those that a daemon has for partitions and gates, as of
// one look. Looking at a process of another user takes privileges.
func sharedObjects(pid int) ([]sharedObject, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := descriptors(dir)
	if err != nil {
		return nil, err
	}
	var objects []sharedObject
	seen := make(map[uint64]bool)
	for _, name := range names {
		o := sharedObject{path: dir + "/" + name}
		target, err := os.Readlink(o.path)
		if err != nil {
			continue // it was closed meanwhile
		}
		kind, ok := kindOfShared(target)
		var st unix.Stat_t
		if !ok || unix.Stat(o.path, &st) != nil || seen[st.Ino] {
			continue
		}
		seen[st.Ino] = true
		o.kind, o.inode, o.size, o.backed = kind, st.Ino, st.Size, st.Blocks*512
		objects = append(objects, o)
	}
	return objects, nil
}

func kindOfShared(target string) (sharedKind, bool) {
	for prefix, kind := range sharedKinds {
		if strings.HasPrefix(target, prefix) {
			return kind, true
		}
	}
	return 0, false
}

// descriptors returns the names in a folder of a process's descriptors, in no
// order.
func descriptors(dir string) ([]string, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("look at descriptors: %w", err)
	}
	defer file.Close()
	names, err := file.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("look at descriptors: %w", err)
	}
	return names, nil
}

// A sharedView looks at the partitions and gates that a daemon has, by mappings of
// its own. What the daemon drops it empties, so counters stay what they were at the
// last look before. One goroutine uses it.
type sharedView struct {
	partitions, gates []viewedObject
	gateBytes         int64 // of gates and of all doorbells
}

type viewedObject struct {
	memfd   *memseg.Memfd
	head    *memseg.Region // the first page: header and counters
	wakeUps uint64         // the most that was seen
}

// viewShared opens the objects that a daemon has and that were not there before.
func viewShared(pid int, before []sharedObject) (_ *sharedView, err error) {
	objects, err := sharedObjects(pid)
	if err != nil {
		return nil, err
	}
	old := make(map[uint64]bool)
	for _, o := range before {
		old[o.inode] = true
	}
	v := &sharedView{}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	for _, o := range objects {
		if old[o.inode] {
			continue
		}
		if o.kind != sharedPartition {
			v.gateBytes += o.backed
		}
		if o.kind == sharedDoorbell {
			continue
		}
		viewed, err := o.open()
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody else's, closed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if o.kind == sharedPartition {
			v.partitions = append(v.partitions, viewed)
		} else {
			v.gates = append(v.gates, viewed)
		}
	}
	return v, nil
}

func (o *sharedObject) open() (viewedObject, error) {
	fd, err := unix.Open(o.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return viewedObject{}, fmt.Errorf("open %s: %w", o.path, err)
	}
	memfd, err := memseg.ReceiveMemfd(fd, o.size, o.path)
	if err != nil {
		return viewedObject{}, err
	}
	head, err := memfd.Map(memseg.ReadOnly, int64(os.Getpagesize()))
	if err != nil {
		return viewedObject{}, errors.Join(err, memfd.Close())
	}
	return viewedObject{memfd: memfd, head: head}, nil
}

// partitionBytes returns the memory that the kernel holds for the regions of all
// partitions.
func (v *sharedView) partitionBytes() (total int64, err error) {
	for _, p := range v.partitions {
		n, err := p.memfd.BackedBytes()
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// wakeUps returns how often producers and gates have waited and were woken, by
// their own count.
func (v *sharedView) wakeUps() (total uint64, err error) {
	for i := range v.partitions {
		p := &v.partitions[i]
		stats, err := memseg.ReadPartitionStats(p.head, 0) // no times are wanted
		if err != nil {
			return 0, err
		}
		p.wakeUps = max(p.wakeUps, stats.WakeUps)
		total += p.wakeUps
	}
	for i := range v.gates {
		g := &v.gates[i]
		g.wakeUps = max(g.wakeUps, memseg.NewGateWords(g.head).WakeUps.Load())
		total += g.wakeUps
	}
	return total, nil
}

func (v *sharedView) close() {
	for _, objects := range [][]viewedObject{v.partitions, v.gates} {
		for _, o := range objects {
			_ = o.head.Close()
			_ = o.memfd.Close()
		}
	}
	v.partitions, v.gates = nil, nil
}
