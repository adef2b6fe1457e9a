package results

// A Metric is the name of a figure, as in files: what it counts, and its unit.
type Metric string

// The metrics. Those by "kernel" and below are counted by the profiler alone.
const (
	RecordsPerS Metric = "records_per_s"
	// BytesPerS counts the bytes of records, without what a transport adds.
	BytesPerS Metric = "bytes_per_s"
	// CPUSPerGiB is the processor time of all workers for each GiB of records.
	CPUSPerGiB Metric = "cpu_s_per_gib"
	// OtherCores is how many cores other programs used meanwhile.
	OtherCores Metric = "other_cores"

	// Latencies are from the planned time of sending to the time of receiving.
	P50     Metric = "p50_ns"
	P90     Metric = "p90_ns"
	P99     Metric = "p99_ns"
	P999    Metric = "p99.9_ns"
	P9999   Metric = "p99.99_ns"
	Highest Metric = "max_ns"
	// BeyondHistogram counts latencies above a minute, which percentiles have as one.
	BeyondHistogram Metric = "latencies_above_1m"
	// AchievedPerS is how many records arrived in a second where a rate was planned.
	AchievedPerS Metric = "achieved_records_per_s"

	// CostPerRecord is the processor time of all workers for each record.
	CostPerRecord Metric = "cpu_ns_per_record"
	// AllocsPerRecord counts heap allocations of all workers.
	AllocsPerRecord Metric = "allocs_per_record"
	// WakeupsPerMiB counts how often a worker that waited was woken.
	WakeupsPerMiB Metric = "wakeups_per_mib"
	// SystemCallsPerMiB and CopiedPerByte count what the kernel did for workers.
	SystemCallsPerMiB Metric = "syscalls_per_mib"
	CopiedPerByte     Metric = "copied_bytes_per_byte"

	// MemoryPerSubpartition is the shared memory of a subpartition that nothing
	// flows through after it was used; the unused one has seen no record yet.
	MemoryPerSubpartition Metric = "bytes_per_subpartition"
	UnusedPerSubpartition Metric = "unused_bytes_per_subpartition"
	PeakPerSubpartition   Metric = "peak_bytes_per_subpartition"
	// MemoryPerGate is the shared memory of a gate, with all doorbells.
	MemoryPerGate Metric = "bytes_per_gate"

	// An attach lasts from when a producer begins to create a partition until the
	// consumer that waits for it has the first record.
	AttachP50 Metric = "attach_p50_ns"
	AttachP99 Metric = "attach_p99_ns"
	CreateP50 Metric = "create_p50_ns" // to create a partition
	CreateP99 Metric = "create_p99_ns"
	OpenP50   Metric = "open_p50_ns" // to open a gate
	OpenP99   Metric = "open_p99_ns"
	// SharedMemory is that of all partitions and gates; DaemonMemory and
	// WorkerMemory are resident and none of it.
	SharedMemory  Metric = "shared_memory_bytes"
	DaemonMemory  Metric = "daemon_memory_bytes"
	DaemonFiles   Metric = "daemon_fds"
	DaemonThreads Metric = "daemon_threads"
	// DaemonMemoryAfter is DaemonMemory when everything has been closed.
	DaemonMemoryAfter Metric = "daemon_memory_after_bytes"
	// DaemonIdleCores and WorkerIdleCores are processor time by time passed while
	// nothing flows.
	DaemonIdleCores Metric = "daemon_idle_cores"
	WorkerIdleCores Metric = "worker_idle_cores"
	// WorkerThreads are those of the worker with the most.
	WorkerThreads Metric = "worker_threads"
	WorkerMemory  Metric = "worker_memory_bytes"
)

// Metrics are all of them, in the order in which they are shown.
var Metrics = []Metric{
	RecordsPerS, BytesPerS, CPUSPerGiB, OtherCores,
	P50, P90, P99, P999, P9999, Highest, BeyondHistogram, AchievedPerS,
	CostPerRecord, AllocsPerRecord, WakeupsPerMiB, SystemCallsPerMiB, CopiedPerByte,
	MemoryPerSubpartition, UnusedPerSubpartition, PeakPerSubpartition, MemoryPerGate,
	AttachP50, AttachP99, CreateP50, CreateP99, OpenP50, OpenP99,
	SharedMemory, DaemonMemory, DaemonMemoryAfter, DaemonFiles, DaemonThreads,
	DaemonIdleCores, WorkerIdleCores, WorkerThreads, WorkerMemory,
}

// A Direction says which of two figures of a metric is the better one.
type Direction int

// The directions.
const (
	Neither Direction = iota // it describes the run
	HigherIsBetter
	LowerIsBetter
)

// Better returns in which direction a metric gets better.
func (m Metric) Better() Direction {
	switch m {
	case RecordsPerS, BytesPerS, AchievedPerS, RatioToCeiling, RatioToUnix:
		return HigherIsBetter
	case OtherCores:
		return Neither
	}
	return LowerIsBetter
}
