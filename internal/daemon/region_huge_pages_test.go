package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// hugeConfig lets a partition of one subpartition have three huge pages of segments
// of 32 KiB, and two segments more.
func hugeConfig(t *testing.T) Config {
	if size := memseg.HugePageSize(); size != 2<<20 {
		t.Skipf("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size is %d, 0 for none: this is for huge pages of 2 MiB",
			size)
	}
	return Config{Memory: 8 * memseg.HugePageSize(), SegmentSize: 32 << 10,
		FloatingTarget: 3 * int(memseg.HugePageSize())}
}

// collapses notes what a server puts into huge pages, and how often it tries.
type collapses struct {
	mu       sync.Mutex
	offsets  []int64
	failures []error // of the next ones
}

func (c *collapses) collapse(_ *memseg.Memfd, offset int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offsets = append(c.offsets, offset/memseg.HugePageSize())
	if len(c.failures) == 0 {
		return nil
	}
	err := c.failures[0]
	c.failures = c.failures[1:]
	return err
}

// tried returns the numbers of the ranges, in the order of the attempts.
func (c *collapses) tried() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.offsets)
}

// hugeProducer is a client with a partition of which it has all segments it wants.
type hugeProducer struct {
	*rawClient
	created *controlpb.PartitionCreated
	region  *memseg.Region
	queue   *memseg.QueueWriter
	has     int
}

func (s *testServer) hugeProducer() *hugeProducer {
	c := s.greet()
	p := &hugeProducer{rawClient: c, created: c.create(shuffle.NewPartitionID(), 1)}
	memfd, err := memseg.ReceiveMemfd(c.fds.Take(0), int64(p.created.RegionSize), "region")
	require.NoError(s.t, err)
	p.region, err = memfd.Map(memseg.ReadWrite, 0)
	require.NoError(s.t, err)
	require.NoError(s.t, memfd.Close())
	layout, err := memseg.DecodePartitionHeader(p.region.Bytes(), int64(p.region.Size()))
	require.NoError(s.t, err)
	p.queue = memseg.NewQueueWriter(p.region, &layout, 0, memseg.NewEventSlots(p.region))
	require.NotNil(s.t, c.ask(mappedMessage(p.created.Epoch)).GetAck())
	return p
}

func (p *hugeProducer) leave() {
	p.rawClient.leave()
	require.NoError(p.t, p.region.Close())
}

// want takes segments until it has n.
func (p *hugeProducer) want(n int) {
	p.t.Helper()
	p.tell(wantMessage(p.created.Epoch, uint32(n-p.has)))
	for p.has < n {
		m := p.note(func(m *controlpb.ServerMessage) bool { return m.GetPoolResized() != nil }).GetPoolResized()
		granted, err := ipc.DecodeSegments("granted", m.Granted, int(p.created.PoolMax))
		require.NoError(p.t, err)
		p.has += len(granted)
	}
}

func (p *hugeProducer) giveBack(first, last uint32) {
	p.t.Helper()
	p.tell(returnMessage(p.created.Epoch, &controlpb.SegmentRange{First: first, Last: last}))
	require.NotNil(p.t, p.ask(listMessage()).GetPartitionList()) // it is handled
	p.has -= int(last-first) + 1
}

func (s *testServer) requireHuge(pages int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.Snapshot().HugePageBytes == pages*memseg.HugePageSize() },
		testPatience, time.Millisecond,
		"%d of %d", s.Snapshot().HugePageBytes, pages*memseg.HugePageSize())
}

func TestHugePagesAreUsedWhereTheProducerHasAllSegments(t *testing.T) {
	var c collapses
	s := startServerWith(t, hugeConfig(t), memoryCalls{(*memseg.Memfd).Commit, c.collapse, 0})
	p := s.hugeProducer()
	require.EqualValues(t, 194, p.created.PoolMax)
	p.want(60)
	require.Empty(t, c.tried(), "a part of the first 2 MiB")
	p.want(64)
	s.requireHuge(1)
	p.want(194)
	s.requireHuge(3)
	require.Equal(t, []int64{0, 1, 2}, c.tried(), "each once")

	p.giveBack(100, 101)
	s.requireHuge(2)
	p.want(193)
	require.EqualValues(t, 2*memseg.HugePageSize(), s.Snapshot().HugePageBytes)
	p.want(194)
	s.requireHuge(3)
	require.Equal(t, []int64{0, 1, 2, 1}, c.tried())
	p.leave()
	s.requireIdle()
	require.Zero(t, s.Snapshot().HugePageBytes)
}

// The kernel may keep all of a huge page for a while of which a part is given back.
func TestMemoryThatAHugePageKeepsIsNobodysMistake(t *testing.T) {
	for name, c := range map[string]struct {
		failures []error
		mistake  bool
	}{
		"huge":       {nil, false},
		"small ones": {[]error{memseg.ErrNoMemory, memseg.ErrNoMemory, memseg.ErrNoMemory}, true},
	} {
		t.Run(name, func(t *testing.T) {
			collapses := collapses{failures: c.failures}
			s := startServerWith(t, hugeConfig(t), memoryCalls{(*memseg.Memfd).Commit, collapses.collapse, 0})
			p := s.hugeProducer()
			p.want(194)
			require.Eventually(t, func() bool { return len(collapses.tried()) == 3 }, testPatience, time.Millisecond)
			p.giveBack(100, 109)
			given := p.region.Bytes()[p.region.Size()-94*(32<<10):][:10*(32<<10)]
			for range 2 * maxStrikes {
				for at := 0; at < len(given); at += pageSize {
					given[at] = 1
				}
				for _, r := range s.liveRegions() {
					s.lookAtRegion(r)
				}
			}
			require.Equal(t, c.mistake, s.Snapshot().Totals.UngrantedBytes > 0)
			if c.mistake {
				p.requireKicked(shuffle.ErrProtocol, "never granted")
			} else {
				require.NotNil(t, p.ask(listMessage()).GetPartitionList())
			}
			p.leave()
		})
	}
}

func TestMemoryThatHugePagesHaveLetGoIsFoundWhenItIsUsedAgain(t *testing.T) {
	collapses := collapses{}
	s := startServerWith(t, hugeConfig(t), memoryCalls{(*memseg.Memfd).Commit, collapses.collapse, 0})
	p := s.hugeProducer()
	p.want(194)
	require.Eventually(t, func() bool { return len(collapses.tried()) == 3 }, testPatience, time.Millisecond)
	p.giveBack(0, 193)
	p.ask(listMessage()) // it has come back
	look := func() {
		for _, r := range s.liveRegions() {
			s.lookAtRegion(r)
		}
	}
	look()
	given := p.region.Bytes()[p.region.Size()-194*(32<<10):]
	for range 2 * maxStrikes {
		for at := 0; at < len(given); at += pageSize {
			given[at] = 1
		}
		look()
	}
	p.requireKicked(shuffle.ErrProtocol, "never granted")
	p.leave()
}

// Whoever uses the memory waits while a huge page is made.
func TestHugePagesAreLeftToPartitionsThatMoveMuch(t *testing.T) {
	var c collapses
	s := startServerWith(t, hugeConfig(t), memoryCalls{(*memseg.Memfd).Commit, c.collapse, hugePageRate})
	p := s.hugeProducer()
	p.want(194)
	for end := time.Now().Add(5 * firstHugeLook); time.Now().Before(end); time.Sleep(time.Millisecond) {
		p.queue.Advance(1000, 1, nil)
		require.Empty(t, c.tried())
	}
	require.Eventually(t, func() bool {
		p.queue.Advance(1<<30, 1, nil)
		return len(c.tried()) == 3
	}, testPatience, time.Millisecond)
	s.requireHuge(3)
	p.leave()
}

func TestHugePageIsTriedAgainWhileItIsBusy(t *testing.T) {
	c := collapses{failures: []error{unix.EAGAIN, unix.EAGAIN}}
	s := startServerWith(t, hugeConfig(t), memoryCalls{(*memseg.Memfd).Commit, c.collapse, 0})
	p := s.hugeProducer()
	p.want(64)
	s.requireHuge(1)
	require.Equal(t, []int64{0, 0, 0}, c.tried())
	p.leave()
}

func TestOtherHugePagesAreUsedWhenOneCannotBeHad(t *testing.T) {
	c := collapses{failures: []error{nil, fmt.Errorf("no huge page: %w", memseg.ErrNoMemory)}}
	s := startServerWith(t, hugeConfig(t), memoryCalls{(*memseg.Memfd).Commit, c.collapse, 0})
	p := s.hugeProducer()
	p.want(64)
	s.requireHuge(1)
	p.want(194)
	s.requireHuge(2)
	require.Equal(t, []int64{0, 1, 2}, c.tried())
	p.leave()
}

func TestServerDoesWithoutHugePages(t *testing.T) {
	for _, row := range []struct {
		name   string
		mode   HugePages
		tried  []int64
		logged int
	}{
		{"where the kernel has none", AutoHugePages, []int64{0}, 1},
		{"where it is told to", NeverHugePages, nil, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := collapses{failures: []error{memseg.ErrNoHugePages}}
			var log syncBuffer
			config := hugeConfig(t)
			config.HugePages, config.Logger = row.mode, slog.New(slog.NewTextHandler(&log, nil))
			s := startServerWith(t, config, memoryCalls{(*memseg.Memfd).Commit, c.collapse, 0})
			logged := func() int { return bytes.Count([]byte(log.String()), []byte("small ones are used")) }
			first := s.hugeProducer()
			first.want(64)
			require.Eventually(t, func() bool { return logged() == row.logged }, testPatience, time.Millisecond)
			first.want(194)
			first.leave()
			s.requireIdle()
			second := s.hugeProducer()
			second.want(194)
			second.leave()
			s.requireIdle()
			require.Equal(t, row.tried, c.tried())
			require.Equal(t, row.logged, logged())
		})
	}
}

// The kernel's own: what lies in huge pages is no more than was granted and booked,
// and goes back with the segments.
func TestHugePagesTakeNoMemoryThatWasNotGranted(t *testing.T) {
	for _, isolation := range []Isolation{DefaultIsolation, StrictIsolation} {
		config := hugeConfig(t)
		config.Isolation = isolation
		var refused atomic.Pointer[error]
		s := startServerWith(t, config, memoryCalls{(*memseg.Memfd).Commit, func(m *memseg.Memfd, offset int64) error {
			err := m.Collapse(offset)
			if err != nil && !errors.Is(err, unix.EAGAIN) {
				refused.Store(&err)
			}
			return err
		}, 0})
		p := s.hugeProducer()
		p.want(100)
		backed := func() int64 { return s.Snapshot().BackedBytes }
		if require.Eventually(t, func() bool { return s.Snapshot().HugePageBytes > 0 || refused.Load() != nil },
			testPatience, time.Millisecond); refused.Load() != nil {
			t.Skipf("no huge page can be had here: %v", *refused.Load())
		}
		require.LessOrEqual(t, backed(), int64(100*config.SegmentSize)+s.Snapshot().ControlBytes)
		before := backed()
		p.giveBack(3, 10)
		if isolation == DefaultIsolation {
			require.Equal(t, before-int64(8*config.SegmentSize), backed(), "though they were parts of a huge page")
		}
		require.Zero(t, s.Snapshot().HugePageBytes)
		p.leave()
		s.requireIdle()
		require.Zero(t, backed())
	}
}
