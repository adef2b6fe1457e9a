package client

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"shuffled/ipc"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// A peerKey names the region of a peer: that of a partition by its epoch, that
// of a gate by its id.
type peerKey struct {
	gate bool
	id   uint64
}

// A peerMapping is a peer's region, mapped for reading, and its doorbell. It is
// shared by all channels of this process between the two.
type peerMapping struct {
	region, doorbell *memseg.Region
	partition        memseg.PartitionLayout // of a partition
	gate             memseg.GateLayout      // of a gate
	users            int
}

// mappings are the regions of peers that are mapped.
type mappings struct {
	mu   sync.Mutex
	open map[peerKey]*peerMapping
}

// acquire returns the mapping of a peer, which it maps with open unless it is
// mapped already. release must be called once for it.
func (m *mappings) acquire(key peerKey, open func() (*peerMapping, error)) (*peerMapping, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.open[key]
	if p == nil {
		var err error
		if p, err = open(); err != nil {
			return nil, err
		}
		if m.open == nil {
			m.open = make(map[peerKey]*peerMapping)
		}
		m.open[key] = p
	}
	p.users++
	return p, nil
}

func (m *mappings) release(key peerKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.open[key]
	p.users--
	if p.users > 0 {
		return
	}
	delete(m.open, key)
	_ = p.region.Close()
	_ = p.doorbell.Close()
}

// mapBoth maps a region and its doorbell from the two descriptors of a message,
// after checking that they are what the daemon said. lost is why they did not
// come, if they did not. Descriptors that were not used are left in fds.
func mapBoth(fds ipc.FDs, lost error, message string, access memseg.Access, regionSize, doorbellSize uint64) (region,
	doorbell *memseg.Region, err error) {
	if lost != nil {
		return nil, nil, lost
	}
	if err := fds.Expect(2, message); err != nil {
		return nil, nil, err
	}
	if region, err = mapObject(fds.Take(0), regionSize, message+".region", access); err != nil {
		return nil, nil, err
	}
	if doorbell, err = mapObject(fds.Take(1), doorbellSize, message+".doorbell", memseg.ReadWrite); err != nil {
		_ = region.Close()
		return nil, nil, err
	}
	return region, doorbell, nil
}

// mapObject maps a descriptor, which it takes over.
func mapObject(fd int, size uint64, name string, access memseg.Access) (*memseg.Region, error) {
	if size > math.MaxInt64 {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("%s: got %d bytes, want at most %d: %w", name, size, int64(math.MaxInt64),
			shuffle.ErrProtocol)
	}
	m, err := memseg.ReceiveMemfd(fd, int64(size), name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, shuffle.ErrProtocol)
	}
	defer m.Close()
	region, err := m.Map(access, 0)
	if errors.Is(err, unix.ENOMEM) {
		return nil, fmt.Errorf("%w (vm.max_map_count or RLIMIT_AS of this process): %w", err, shuffle.ErrNoMemory)
	}
	return region, err
}
