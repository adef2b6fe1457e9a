package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"shuffled/internal/units"
	"shuffled/memseg"
)

// A memoryBudget is what memory there is for this process. Regions are charged
// to the cgroup of the daemon, so its limit is theirs.
type memoryBudget struct {
	machine int64  // main memory and swap, 0 if unknown
	ram     int64  // main memory alone, 0 if unknown
	cgroup  string // that is charged, "" if unknown
	limit   int64  // the lowest one on the way from cgroup to root, 0 if there is none
	// limitedBy is the file that sets the limit.
	limitedBy string
}

// readMemoryBudget looks at the kernel's files below root, which is "/" but in
// tests.
func readMemoryBudget(root string) memoryBudget {
	b := memoryBudget{cgroup: memseg.ChargedCgroup()}
	b.readMachine(filepath.Join(root, "proc/meminfo"))
	b.readLimit(filepath.Join(root, "sys/fs/cgroup"))
	return b
}

func (b *memoryBudget) readMachine(meminfo string) {
	text, err := os.ReadFile(meminfo)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "MemTotal:":
			b.ram, b.machine = n*units.KiB, b.machine+n*units.KiB
		case "SwapTotal:":
			b.machine += n * units.KiB
		}
	}
}

// readLimit finds the lowest limit of the cgroup and those around it. Where a
// container shows only its own part of the tree, a path that is not there means
// the mount point.
func (b *memoryBudget) readLimit(mount string) {
	for _, hierarchy := range []struct{ dir, file string }{
		{mount, "memory.max"},
		{filepath.Join(mount, "memory"), "memory.limit_in_bytes"},
	} {
		for group := filepath.Clean("/" + b.cgroup); ; group = filepath.Dir(group) {
			file := filepath.Join(hierarchy.dir, group, hierarchy.file)
			if n, ok := readCgroupLimit(file); ok && (b.limit == 0 || n < b.limit) {
				b.limit, b.limitedBy = n, file
			}
			if group == "/" {
				break
			}
		}
	}
}

// unlimitedCgroup is above what any machine has: version 1 writes "no limit" as
// the largest multiple of a page.
const unlimitedCgroup = 1 << 60

func readCgroupLimit(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n < unlimitedCgroup // "max" is no number
}

// available is the most that the daemon can ever get.
func (b *memoryBudget) available() int64 {
	switch {
	case b.limit > 0 && b.machine > 0:
		return min(b.limit, b.machine)
	case b.limit > 0:
		return b.limit
	case b.machine > 0:
		return b.machine
	}
	return math.MaxInt64
}

// defaultMemory is a quarter of what there is, at most 4 GiB, in whole MiB.
func (b *memoryBudget) defaultMemory() int64 {
	n := int64(math.MaxInt64)
	if b.ram > 0 {
		n = b.ram
	}
	if b.limit > 0 {
		n = min(n, b.limit)
	}
	if n == math.MaxInt64 {
		return units.GiB // nothing is known
	}
	return max(min(n/4, 4*units.GiB)/units.MiB*units.MiB, units.MiB)
}

// What the daemon needs beside segments, queues and gates: for its program, and
// at least for its heap; and the least that queues and gates can do with.
const (
	programMemory    = 16 * units.MiB
	minHeapMemory    = 16 * units.MiB
	minControlMemory = units.MiB
)

// controlMemory is the default of --max-control-memory: a quarter of the memory
// and at least 64 MiB, or what is left of the limit.
func (b *memoryBudget) controlMemory(memory int64) int64 {
	return max(min(max(memory/4, 64*units.MiB), b.available()-memory-programMemory-minHeapMemory), minControlMemory)
}

// heapMemory is the default of --max-heap-memory, likewise.
func (b *memoryBudget) heapMemory(memory, control int64) int64 {
	return max(min(max(memory/4, 64*units.MiB), b.available()-memory-control-programMemory), minHeapMemory)
}

// limitGoMemory has the garbage collector keep the heap within what is booked for
// it, unless the user has set another limit.
func limitGoMemory(heap int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heap + programMemory)
	}
}

// leavesLittle reports whether partitions may take all but an eighth of the main
// memory, or of the cgroup's: workers, which may be in the same one, live on the rest.
func (b *memoryBudget) leavesLittle(memory int64) (whole, left int64, little bool) {
	whole = math.MaxInt64
	for _, n := range []int64{b.ram, b.limit} {
		if n > 0 {
			whole = min(whole, n)
		}
	}
	left = max(whole-memory, 0)
	return whole, left, whole < math.MaxInt64 && left < whole/8
}

// check refuses a --memory that could never be given out in full. A grant beyond
// the limit would not fail: the kernel would kill the daemon.
func (b *memoryBudget) check(memory, control, heap int64) error {
	available, own := b.available(), programMemory+heap
	if memory <= available-own-control {
		return nil
	}
	where, advice := "the machine's memory and swap", "lower --memory"
	if b.limit > 0 && b.limit == available {
		where = fmt.Sprintf("the memory limit of the cgroup %s (%s)", b.cgroup, b.limitedBy)
		advice += " or raise the limit"
	}
	return fmt.Errorf("--memory %s, %s for queues and gates (--max-control-memory) and %s for the daemon itself (--max-heap-memory) do not fit %s: needed %d bytes, available %d: %s",
		units.FormatSize(memory), units.ShortSize(control), units.ShortSize(own), where, memory+control+own, available,
		advice)
}
