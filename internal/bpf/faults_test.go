package bpf

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/memseg"
)

const touchedPages = 100

func init() {
	parts["ours"] = func(s *stage) error { return touchPages(s, "shuffled-partition-test") }
	parts["not-ours"] = func(s *stage) error { return touchPages(s, "shuffle-of-another") }
	parts["filled-by-kernel"] = readIntoOurs
	parts["cold-file"] = touchColdFile
}

func mapObject(name string) ([]byte, error) {
	memfd, err := memseg.CreateMemfd(name, int64(touchedPages*os.Getpagesize()))
	if err != nil {
		return nil, err
	}
	region, err := memfd.Map(memseg.ReadWrite, 0)
	if err != nil {
		return nil, err
	}
	return region.Bytes(), nil
}

// touchPages stores to each page, twice.
func touchPages(s *stage, name string) error {
	mem, err := mapObject(name)
	if err != nil {
		return err
	}
	s.begin()
	for range 2 {
		for at := 0; at < len(mem); at += os.Getpagesize() {
			mem[at]++
		}
	}
	return nil
}

func TestFirstTouchesOfSharedObjectsAreCounted(t *testing.T) {
	tracer := openTracer(t, Options{}, PartFaults)
	play := rehearse(t, "ours")
	require.NoError(t, tracer.Watch(play.pid(0), Producer))
	got := countsOf(t, tracer, play.perform).Roles[Producer].Faults
	require.EqualValues(t, touchedPages, got.FirstTouches)
	require.GreaterOrEqual(t, got.User, uint64(touchedPages))
}

func TestOtherMappingsHaveNoFirstTouches(t *testing.T) {
	tracer := openTracer(t, Options{}, PartFaults)
	play := rehearse(t, "not-ours")
	require.NoError(t, tracer.Watch(play.pid(0), Producer))
	got := countsOf(t, tracer, play.perform).Roles[Producer].Faults
	require.Zero(t, got.FirstTouches)
	require.GreaterOrEqual(t, got.User, uint64(touchedPages))
}

// readIntoOurs lets the kernel fill pages that nobody has touched.
func readIntoOurs(s *stage) error {
	mem, err := mapObject("shuffled-partition-test")
	if err != nil {
		return err
	}
	to, from, err := openPipe()
	if err != nil {
		return err
	}
	s.begin()
	for at := 0; at < len(mem); at += os.Getpagesize() {
		if _, err := unix.Write(to, []byte{1}); err != nil {
			return err
		}
		if _, err := unix.Read(from, mem[at:at+1]); err != nil {
			return err
		}
	}
	return nil
}

func TestFaultsOfTheKernelAreToldFromThoseOfUserCode(t *testing.T) {
	tracer := openTracer(t, Options{}, PartFaults)
	play := rehearse(t, "filled-by-kernel")
	require.NoError(t, tracer.Watch(play.pid(0), Consumer))
	got := countsOf(t, tracer, play.perform).Roles[Consumer].Faults
	require.GreaterOrEqual(t, got.Kernel, uint64(touchedPages))
	require.EqualValues(t, touchedPages, got.FirstTouches)
}

// touchColdFile touches a file whose pages have left the memory, and leaves the
// number of major faults that the kernel has counted for it.
func touchColdFile(s *stage) error {
	f, err := os.CreateTemp("", "shuffled-cold-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	const size = 8 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if err := unix.Madvise(mem, unix.MADV_RANDOM); err != nil {
		return err
	}
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &before); err != nil {
		return err
	}
	s.begin()
	var sum int
	for at := 0; at < size; at += size / touchedPages {
		sum += int(mem[at])
	}
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &after); err != nil {
		return err
	}
	s.shared.Word(wordGift).Store(uint64(after.Majflt - before.Majflt))
	if sum != 0 {
		return fmt.Errorf("the file is not what was written")
	}
	return nil
}

func TestMajorFaultsAreThoseThatTheKernelCounts(t *testing.T) {
	tracer := openTracer(t, Options{}, PartFaults)
	requirePart(t, tracer, PartSwitches)
	play := rehearse(t, "cold-file")
	require.NoError(t, tracer.Watch(play.pid(0), Consumer))
	got := countsOf(t, tracer, play.perform).Roles[Consumer]
	majors := play.shared.Word(wordGift).Load()
	if majors == 0 {
		t.Skipf("reading a file in %s takes no disk", os.TempDir())
	}
	require.Equal(t, majors, got.Faults.Major)
	require.NotZero(t, got.Switches.OffCPU[OffPageFault].Stays)
}
