package main

import (
	"fmt"
	"time"

	"shuffled/internal/cli"
	"shuffled/internal/daemon"
	"shuffled/internal/units"
	"shuffled/ipc"
	"shuffled/pool"
)

// serveOptions are what the daemon takes, with the names of their flags.
type serveOptions struct {
	socket      string
	socketGroup string

	memory         int64
	segmentSize    int64
	floatingTarget int64
	isolation      string
	hugePages      string

	allowedUIDs, allowedGIDs []uint32

	limits           limitOptions
	retention        time.Duration
	admissionTimeout time.Duration

	metricsAddress string
	pprof          bool
	logFormat      string
	logLevel       string
	drainTimeout   time.Duration
	printConfig    bool

	budget memoryBudget // what the default of memory was made of
}

// limitOptions are those that become ipc.Limits; 0 is the server's default.
type limitOptions struct {
	maxConnections, maxPartitions, maxGates, maxInputsPerGate int
	maxControlMemory, maxHeapMemory                           int64
	maxConnectionsPerUID, maxPartitionsPerUID, maxGatesPerUID int
	maxMemoryPerUID                                           int64
}

const (
	defaultSocket         = "/run/shuffled/shuffled.sock"
	defaultMetricsAddress = "127.0.0.1:9464"
	minSegmentSize        = 4 << 10
	maxSegmentSize        = 64 << 20
	maxMemory             = 1 << 60
	// maxCount bounds the numeric limits.
	maxCount = 1 << 30
)

func newServeOptions() *serveOptions {
	budget := readMemoryBudget("/")
	return &serveOptions{
		socket: defaultSocket, memory: budget.defaultMemory(), segmentSize: pool.DefaultSegmentSize,
		isolation: "default", hugePages: "auto", retention: 10 * time.Minute,
		admissionTimeout: daemon.DefaultAdmissionTimeout,
		metricsAddress:   defaultMetricsAddress, logFormat: "text", logLevel: "info", drainTimeout: 30 * time.Second,
		limits: limitOptions{maxConnections: 10_000, maxPartitions: 100_000, maxGates: 100_000,
			maxInputsPerGate: 1 << 16},
		budget: budget,
	}
}

// settings lists the options in the order of the help text.
func (o *serveOptions) settings() settings {
	size := func(v *int64, least, most int64) sizeValue { return sizeValue{bytes: v, least: least, most: most} }
	count := func(v *int, least, most int) intValue { return intValue{v, least, most} }
	list := settings{
		socketSetting(&o.socket,
			"Unix socket to listen on, at most "+fmt.Sprint(ipc.MaxSocketPath)+" bytes. Its directory is created "+
				"with mode 0750 if it is missing, the socket with mode 0660. PATH.lock beside it keeps a second daemon away. "+
				"Workers in containers mount the directory, not the socket."),
		{name: "socket-group", group: "Socket", arg: "GROUP", value: groupName{&o.socketGroup},
			help:        "Group, by name or gid, whose members can connect to the socket; it gets the socket, and the directory if that is created.",
			defaultHelp: "the first of --allowed-gids, else the daemon's own group"},
		{name: "allowed-uids", group: "Socket", arg: "UID,...", value: idsValue{&o.allowedUIDs},
			help: "Users that may use the daemon, beside root and its own user. The mode of the socket must let them in too: see --socket-group."},
		{name: "allowed-gids", group: "Socket", arg: "GID,...", value: idsValue{&o.allowedGIDs},
			help: "Groups whose members may use the daemon, by the primary group of a process."},

		{name: "memory", group: "Memory", arg: "SIZE", value: size(&o.memory, minSegmentSize, maxMemory),
			help: "How much memory partitions may have together, such as 512MiB or 1.5GiB (units KiB, MiB, GiB, TiB; none is bytes). " +
				"It is taken when it is used, and charged to the memory cgroup of the daemon. /dev/shm is not used.",
			defaultHelp: "a quarter of the machine's memory or of the cgroup's limit, at most 4GiB; here " +
				units.FormatSize(o.memory)},
		{name: "segment-size", group: "Memory", arg: "SIZE",
			value: sizeValue{bytes: &o.segmentSize, least: minSegmentSize, most: maxSegmentSize, powerOfTwo: true},
			help:  "Size of a MemorySegment: a power of two from 4KiB to 64MiB."},
		{name: "floating-target", group: "Memory", arg: "SIZE", value: size(&o.floatingTarget, 0, units.TiB),
			help: "What a bounded partition can have in flight beside two segments for each subpartition, memory allowing. " +
				"Less than about twice a core's second-level cache is slow.",
			defaultHelp: fmt.Sprintf("0, which is six of those caches with one subpartition, two with more; here %s and %s",
				units.FormatSize(int64(pool.DefaultFloatingBytes(1))),
				units.FormatSize(int64(pool.DefaultFloatingBytes(2))))},
		{name: "isolation", group: "Memory", arg: "MODE",
			value: choiceValue{&o.isolation, []string{"default", "strict"}},
			help: "default: the memory of a partition is given back in parts. strict: a partition is sealed so that nobody but its " +
				"producer can ever map it for writing; its memory is given back as a whole only, and stays the partition's until then."},
		{name: "huge-pages", group: "Memory", arg: "MODE", value: choiceValue{&o.hugePages, []string{"auto", "never"}},
			help: "auto: the memory of a partition that moves more than 1GiB a second is put into huge pages, if the kernel has some to " +
				"give (Linux 6.1), whatever shmem_enabled says but for deny. never: it stays as it is."},
		{name: "retention", group: "Memory", arg: "TIME", value: durationValue{&o.retention, time.Second,
			365 * 24 * time.Hour},
			help: "How long a finished partition is kept while nobody reads it."},
		{name: "admission-timeout", group: "Memory", arg: "TIME", value: durationValue{&o.admissionTimeout, 0,
			time.Hour},
			help: "How long the creation of a partition waits for the segments that it requires (one for each subpartition, and one), " +
				"which others are asked to give back as far as they have more than they need. 0s refuses it at once."},

		{name: "max-connections", group: "Limits", arg: "N", value: count(&o.limits.maxConnections, 1, maxCount),
			help: "Clients connected at once."},
		{name: "max-partitions", group: "Limits", arg: "N", value: count(&o.limits.maxPartitions, 1, maxCount),
			help: "Partitions whose memory is not given back. Each takes two descriptors (RLIMIT_NOFILE)."},
		{name: "max-gates", group: "Limits", arg: "N", value: count(&o.limits.maxGates, 1, maxCount),
			help: "Input gates open at once. Each takes two descriptors."},
		{name: "max-inputs-per-gate", group: "Limits", arg: "N", value: count(&o.limits.maxInputsPerGate, 1, 1<<20),
			help: "Inputs of one gate."},
		{name: "max-control-memory", group: "Limits", arg: "SIZE", value: size(&o.limits.maxControlMemory, 0, 1<<62),
			help:        "Memory of queues and gates, which comes on top of --memory.",
			defaultHelp: "0, which is a quarter of --memory and at least 64MiB, or what the cgroup leaves"},
		{name: "max-heap-memory", group: "Limits", arg: "SIZE", value: size(&o.limits.maxHeapMemory, 0, 1<<62),
			help: "What connections, partitions, gates and inputs may take of the daemon's own heap, on top of that. GOMEMLIMIT follows from it, " +
				"unless it is set.",
			defaultHelp: "0, which is a quarter of --memory and at least 64MiB, or what the cgroup leaves"},
		{name: "max-connections-per-uid", group: "Limits", arg: "N", value: count(&o.limits.maxConnectionsPerUID, 0,
			maxCount),
			help:        "As --max-connections, for one user.",
			defaultHelp: "0, which is all but what is kept for others: see below"},
		{name: "max-partitions-per-uid", group: "Limits", arg: "N", value: count(&o.limits.maxPartitionsPerUID, 0,
			maxCount),
			help: "As --max-partitions, for one user.", defaultHelp: "0, which is all but what is kept for others"},
		{name: "max-gates-per-uid", group: "Limits", arg: "N", value: count(&o.limits.maxGatesPerUID, 0, maxCount),
			help: "As --max-gates, for one user.", defaultHelp: "0, which is all but what is kept for others"},
		{name: "max-memory-per-uid", group: "Limits", arg: "SIZE", value: size(&o.limits.maxMemoryPerUID, 0, 1<<62),
			help:        "What the partitions of one user can grow to, together. A new partition is made smaller to fit, as far as it can work then.",
			defaultHelp: "0, which is no limit; what partitions require of --memory is limited as the others are"},

		{name: "metrics-address", group: "Operation", arg: "HOST:PORT", value: (*tcpAddress)(&o.metricsAddress),
			help: `Where to serve /metrics, /healthz and /readyz over HTTP, to whoever can connect; "" is nowhere, port 0 a free one, which the log names. ` +
				"At most " + fmt.Sprint(maxAdminConnections) +
				" connections: one more closes the one that has been idle for longest."},
		{name: "pprof", group: "Operation", value: boolValue{&o.pprof},
			help: "Serve /debug/pprof there too: profiles of the daemon, which cost it time and show its command line to whoever can connect."},
		{name: "log-format", group: "Operation", arg: "FORMAT",
			value: choiceValue{&o.logFormat, []string{"text", "json"}},
			help:  "How log lines are written to standard error: text or json."},
		{name: "log-level", group: "Operation", arg: "LEVEL",
			value: choiceValue{&o.logLevel, []string{"debug", "info", "warn", "error"}},
			help:  "Least severe lines to write: debug, info, warn or error."},
		{name: "drain-timeout", group: "Operation", arg: "TIME", value: durationValue{&o.drainTimeout, 0,
			24 * time.Hour},
			help: "How long, after the first SIGTERM, SIGINT or SIGHUP, partitions may take to end while nothing new is accepted. " +
				"A further SIGTERM or SIGINT stops at once."},
		{name: "print-config", group: "Operation", value: boolValue{&o.printConfig}, flagOnly: true,
			help: "Print each setting with its value and where it came from, and exit."},
	}
	return list
}

// config returns what the server is told.
func (o *serveOptions) config() daemon.Config {
	c := daemon.Config{
		Memory: o.memory, SegmentSize: int(o.segmentSize), FloatingTarget: int(o.floatingTarget),
		AllowedUIDs: o.allowedUIDs, AllowedGIDs: o.allowedGIDs, Retention: o.retention,
		AdmissionTimeout: o.admissionTimeout, Version: programVersion(),
		Limits: daemon.Limits{
			Connections: o.limits.maxConnections, Partitions: o.limits.maxPartitions, Gates: o.limits.maxGates,
			InputsPerGate: o.limits.maxInputsPerGate, ControlMemory: o.limits.maxControlMemory,
			HeapMemory:        o.limits.maxHeapMemory,
			ConnectionsPerUID: o.limits.maxConnectionsPerUID, PartitionsPerUID: o.limits.maxPartitionsPerUID,
			GatesPerUID: o.limits.maxGatesPerUID, MemoryPerUID: o.limits.maxMemoryPerUID,
		},
	}
	if o.admissionTimeout == 0 {
		c.AdmissionTimeout = -1
	}
	c.Instance = instanceName(o.socket)
	if o.isolation == "strict" {
		c.Isolation = daemon.StrictIsolation
	}
	if o.hugePages == "never" {
		c.HugePages = daemon.NeverHugePages
	}
	if c.Limits.ControlMemory == 0 {
		c.Limits.ControlMemory = o.budget.controlMemory(o.memory)
	}
	if c.Limits.HeapMemory == 0 {
		c.Limits.HeapMemory = o.budget.heapMemory(o.memory, c.Limits.ControlMemory)
	}
	return c
}

// check refuses combinations of values that are each fine.
func (o *serveOptions) check() error {
	segments := o.memory / o.segmentSize
	const most = 1 << 22 * 512 // pool counts in 31 bits
	switch {
	case segments < 2:
		return cli.Usagef("--memory %s holds %d segments of --segment-size %s, want at least 2: one is written while another is read",
			units.FormatSize(o.memory), segments, units.FormatSize(o.segmentSize))
	case segments > most:
		return cli.Usagef("--memory %s holds %d segments of --segment-size %s, want at most %d: use larger segments",
			units.FormatSize(o.memory), segments, units.FormatSize(o.segmentSize), most)
	case o.floatingTarget > o.memory:
		return cli.Usagef("--floating-target %s is more than --memory %s", units.FormatSize(o.floatingTarget),
			units.FormatSize(o.memory))
	case o.limits.maxMemoryPerUID > 0 && o.limits.maxMemoryPerUID < 2*o.segmentSize:
		return cli.Usagef("--max-memory-per-uid %s holds no partition, want at least two segments of --segment-size %s",
			units.FormatSize(o.limits.maxMemoryPerUID), units.FormatSize(o.segmentSize))
	case o.limits.maxControlMemory > 0 && o.limits.maxControlMemory < leastControlMemory:
		return cli.Usagef("--max-control-memory %s holds no queues, want 0 for the default or at least %s",
			units.FormatSize(o.limits.maxControlMemory), units.FormatSize(leastControlMemory))
	}
	for _, limit := range []struct {
		name          string
		perUID, total int
	}{
		{"--max-connections", o.limits.maxConnectionsPerUID, o.limits.maxConnections},
		{"--max-partitions", o.limits.maxPartitionsPerUID, o.limits.maxPartitions},
		{"--max-gates", o.limits.maxGatesPerUID, o.limits.maxGates},
	} {
		if limit.perUID > limit.total {
			return cli.Usagef("%s-per-uid %d is more than %s %d", limit.name, limit.perUID, limit.name, limit.total)
		}
	}
	return nil
}

// leastControlMemory holds the queues of a small partition and a gate.
const leastControlMemory = 64 * units.KiB
