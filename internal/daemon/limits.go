package daemon

import (
	"fmt"

	"shuffled/shuffle"
)

// Limits bound what clients may use of the daemon. Zero selects the default of a
// field; the errors are shuffle.ErrQuotaExceeded and name the flag that the
// daemon has for it.
//
// All clients together cannot use up what counts for everybody: the last eighth
// of each limit is kept for users that have less than a sixteenth of it. So one
// user can have nearly everything on a host of its own, and none can keep
// another from its sixteenth. Of the memory, that eighth is kept if the config allows
// other users at all, and lent beyond what partitions require only to users that have
// less than a sixteenth of it. Root and the daemon's own user, who could end the
// daemon, are not held back by this; and when there is no connection left, they
// still get one for an operator's requests.
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
	// HeapMemory is how many bytes of the daemon's own heap connections, partitions,
	// gates and inputs may take, by what each was measured to cost; a quarter of the
	// memory by default, at least 64 MiB.
	HeapMemory int64
	// Descriptors is how many file descriptors connections, partitions and gates
	// may take, two each. No limit by default; a daemon sets it below
	// RLIMIT_NOFILE, so that it runs out of them nowhere else.
	Descriptors int

	// What one user may have of it, whoever it is; by default nothing but the share
	// that is kept for others.
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
	if l.HeapMemory == 0 {
		l.HeapMemory = max(memory/4, 64<<20)
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
		{"HeapMemory", l.HeapMemory, 1 << 62},
		{"MemoryPerUID", l.MemoryPerUID, 1 << 62},
	} {
		if field.value < 1 || field.value > field.most {
			return fmt.Errorf("server config: Limits.%s is %d, want 1 to %d: %w", field.name, field.value, field.most,
				shuffle.ErrInvalidArgument)
		}
	}
	return nil
}
