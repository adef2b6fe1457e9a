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

	// CostPerRecord is the processor time of all workers for each record.
	CostPerRecord Metric = "cpu_ns_per_record"
	// AllocsPerRecord counts heap allocations of all workers.
	AllocsPerRecord Metric = "allocs_per_record"
	// WakeupsPerMiB counts how often a worker that waited was woken.
	WakeupsPerMiB Metric = "wakeups_per_mib"
	// SystemCallsPerMiB and CopiedPerByte count what the kernel did for workers.
	SystemCallsPerMiB Metric = "syscalls_per_mib"
	CopiedPerByte     Metric = "copied_bytes_per_byte"

	// MemoryPerSubpartition is the shared memory that a subpartition holds.
	MemoryPerSubpartition Metric = "bytes_per_subpartition"
	AttachP50             Metric = "attach_p50_ns"
	AttachP99             Metric = "attach_p99_ns"
	DaemonMemory          Metric = "daemon_memory_bytes"
	DaemonFiles           Metric = "daemon_fds"
	DaemonThreads         Metric = "daemon_threads"
	// DaemonIdleCores and WorkerIdleCores are processor time by time passed while
	// nothing flows.
	DaemonIdleCores Metric = "daemon_idle_cores"
	WorkerIdleCores Metric = "worker_idle_cores"
	WorkerThreads   Metric = "worker_threads"
	WorkerMemory    Metric = "worker_memory_bytes"
)

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
	case RecordsPerS, BytesPerS:
		return HigherIsBetter
	case OtherCores:
		return Neither
	}
	return LowerIsBetter
}
