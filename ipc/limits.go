package ipc

import (
	"fmt"
	"sync"

	"shuffled/shuffle"
)

// Limits bound what clients may use of the daemon. Zero selects the default of a
// field; the errors are shuffle.ErrQuotaExceeded and name the field.
type Limits struct {
	// Connections is how many clients there may be; 10,000 by default.
	Connections int
	// Partitions is how many partitions there may be, until their memory is given
	// back; 100,000 by default.
	Partitions int
	// Gates is how many input gates there may be; 100,000 by default.
	Gates int
	// InputsPerGate is how many inputs a gate may have; 65,536 by default.
	InputsPerGate int
	// ControlMemory is how many bytes the queues of partitions and the words of
	// gates may take beside the segments; a quarter of the memory by default, at
	// least 64 MiB.
	ControlMemory int64
	// Descriptors is how many file descriptors connections, partitions and gates
	// may take: one, two and two each. No limit by default; a daemon sets it below
	// RLIMIT_NOFILE, so that it runs out of them nowhere else.
	Descriptors int

	// What one user may have of it; by default everything.
	ConnectionsPerUID int
	PartitionsPerUID  int
	GatesPerUID       int
	// MemoryPerUID bounds the sum of what the partitions of a user can grow to, in
	// bytes with their queues. A partition is made smaller to fit, but not below
	// what it requires.
	MemoryPerUID int64
}

// maxCount bounds the limits that count something.
const maxCount = 1 << 30

func (l Limits) withDefaults(memory int64) Limits {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&l.Connections, 10_000)
	set(&l.Partitions, 100_000)
	set(&l.Gates, 100_000)
	set(&l.InputsPerGate, 1<<16)
	set(&l.Descriptors, maxCount)
	set(&l.ConnectionsPerUID, l.Connections)
	set(&l.PartitionsPerUID, l.Partitions)
	set(&l.GatesPerUID, l.Gates)
	if l.ControlMemory == 0 {
		l.ControlMemory = max(memory/4, 64<<20)
	}
	if l.MemoryPerUID == 0 {
		l.MemoryPerUID = 1 << 62
	}
	return l
}

func (l *Limits) validate() error {
	for _, field := range []struct {
		name  string
		value int64
		most  int64
	}{
		{"Connections", int64(l.Connections), maxCount},
		{"Partitions", int64(l.Partitions), maxCount},
		{"Gates", int64(l.Gates), maxCount},
		{"InputsPerGate", int64(l.InputsPerGate), shuffle.MaxInputs},
		{"Descriptors", int64(l.Descriptors), maxCount},
		{"ConnectionsPerUID", int64(l.ConnectionsPerUID), maxCount},
		{"PartitionsPerUID", int64(l.PartitionsPerUID), maxCount},
		{"GatesPerUID", int64(l.GatesPerUID), maxCount},
		{"ControlMemory", l.ControlMemory, 1 << 62},
		{"MemoryPerUID", l.MemoryPerUID, 1 << 62},
	} {
		if field.value < 1 || field.value > field.most {
			return fmt.Errorf("server config: Limits.%s is %d, want 1 to %d: %w", field.name, field.value, field.most, shuffle.ErrInvalidArgument)
		}
	}
	return nil
}

// An account counts what somebody uses.
type account struct {
	connections, partitions, gates int
	memory, control                int64
}

func (a *account) add(b account, sign int) {
	a.connections += sign * b.connections
	a.partitions += sign * b.partitions
	a.gates += sign * b.gates
	a.memory += int64(sign) * b.memory
	a.control += int64(sign) * b.control
}

// descriptors is how many file descriptors that takes.
func (a *account) descriptors() int64 { return int64(a.connections) + 2*int64(a.partitions+a.gates) }

// A ledger keeps what is in use within the limits.
type ledger struct {
	limits Limits

	mu     sync.Mutex
	total  account
	perUID map[uint32]*account
}

func newLedger(limits Limits) *ledger {
	return &ledger{limits: limits, perUID: make(map[uint32]*account)}
}

// reserve books use for a user, or returns shuffle.ErrQuotaExceeded with the
// name of the limit and books nothing.
func (l *ledger) reserve(uid uint32, use account) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.perUID[uid]
	if own == nil {
		own = &account{}
	}
	for _, limit := range []struct {
		name           string
		got, add, most int64
	}{
		{"Connections", int64(l.total.connections), int64(use.connections), int64(l.limits.Connections)},
		{"Partitions", int64(l.total.partitions), int64(use.partitions), int64(l.limits.Partitions)},
		{"Gates", int64(l.total.gates), int64(use.gates), int64(l.limits.Gates)},
		{"ControlMemory", l.total.control, use.control, l.limits.ControlMemory},
		{"Descriptors", l.total.descriptors(), use.descriptors(), int64(l.limits.Descriptors)},
		{"ConnectionsPerUID", int64(own.connections), int64(use.connections), int64(l.limits.ConnectionsPerUID)},
		{"PartitionsPerUID", int64(own.partitions), int64(use.partitions), int64(l.limits.PartitionsPerUID)},
		{"GatesPerUID", int64(own.gates), int64(use.gates), int64(l.limits.GatesPerUID)},
		{"MemoryPerUID", own.memory, use.memory, l.limits.MemoryPerUID},
	} {
		if limit.add > 0 && limit.add > limit.most-limit.got {
			return fmt.Errorf("limit %s of the daemon: %d in use and %d more, limit %d: %w",
				limit.name, limit.got, limit.add, limit.most, shuffle.ErrQuotaExceeded)
		}
	}
	l.total.add(use, 1)
	own.add(use, 1)
	l.perUID[uid] = own
	return nil
}

// release gives back what reserve has booked.
func (l *ledger) release(uid uint32, use account) {
	if use == (account{}) {
		return // nothing was booked
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.add(use, -1)
	own := l.perUID[uid]
	own.add(use, -1)
	if *own == (account{}) {
		delete(l.perUID, uid)
	}
}

// memoryRoom returns how many bytes a user may still reserve.
func (l *ledger) memoryRoom(uid uint32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := l.limits.MemoryPerUID
	if own := l.perUID[uid]; own != nil {
		room -= own.memory
	}
	return room
}

// inUse returns what everybody uses together.
func (l *ledger) inUse() account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}
