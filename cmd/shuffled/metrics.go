package main

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"shuffled/internal/daemon"
	"shuffled/shuffle"
)

// Metrics are what /metrics shows. Names and labels are an interface: they only
// ever get more. Every label has a fixed set of values.
type metrics struct {
	registry *prometheus.Registry
	attach   prometheus.Histogram
}

// newMetrics returns a registry with everything that is known before there is a
// server.
func newMetrics(degradations []degradation, budget memoryBudget, droppedLines func() uint64) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		attach: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "shuffled_attach_seconds",
			Help:    "Time from when both a consumer had asked and its producer was there until both were told of each other.",
			Buckets: prometheus.ExponentialBuckets(10e-6, 4, 10), // 10 us to 2.6 s
		}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "shuffled_build_info", Help: "1, labelled with what the daemon was built from.",
	}, []string{"version", "goversion"})
	build.WithLabelValues(programVersion(), runtime.Version()).Set(1)
	degraded := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "shuffled_degraded",
		Help: "1 if the host lacks something without which the daemon does less than it could; the log says what.",
	}, []string{"reason"})
	for _, d := range degradations {
		degraded.WithLabelValues(d.reason).Set(oneIf(d.active))
	}
	dropped := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "shuffled_log_lines_dropped_total",
		Help: "Log lines that were dropped, since standard error took no more or could not be written.",
	}, func() float64 { return float64(droppedLines()) })
	m.registry.MustRegister(build, degraded, m.attach, dropped,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if budget.limit > 0 {
		limit := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "shuffled_memory_limit_bytes",
			Help: "Limit of the memory cgroup that shared memory is charged to, at start; absent if there is none.",
		})
		limit.Set(float64(budget.limit))
		m.registry.MustRegister(limit)
	}
	return m
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// attached is an ipc.Config's OnAttach.
func (m *metrics) attached(latency time.Duration) { m.attach.Observe(latency.Seconds()) }

// watch adds what a server counts. Each scrape looks at it once.
func (m *metrics) watch(server interface{ Snapshot() daemon.Snapshot }) {
	m.registry.MustRegister(snapshotCollector{server.Snapshot})
}

// watchReadiness adds whether the daemon is ready.
func (m *metrics) watchReadiness(ready *readiness) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "shuffled_ready", Help: "1 if the daemon takes new work; /readyz says why not.",
	}, func() float64 { return oneIf(len(ready.pending()) == 0) }))
}

// watchAdmin adds what the HTTP server counts.
func (m *metrics) watchAdmin(connections *adminConnections) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "shuffled_http_connections_closed_total", Help: "HTTP connections that were closed to let others in.",
	}, func() float64 { return float64(connections.closed.Load()) }))
}

// A snapshotCollector makes metrics of a server's snapshot at each scrape.
type snapshotCollector struct {
	snapshot func() daemon.Snapshot
}

var (
	descPartitions = describe("shuffled_partitions",
		"Partitions whose memory is held, by type and state; the states from consumed on have ended and are still mapped by somebody.", "type", "state")
	descSegments = describe("shuffled_segments",
		"Segments of the budget: free and granted add up to it. promised is what the partitions require, granted or not, "+
			"and reserved what of that is not granted yet: so much of what is free is kept for them.", "state")
	descWaiting = describe("shuffled_creations_waiting",
		"Partitions whose creation waits until others have given back the segments that it requires.")
	descSegmentSize = describe("shuffled_segment_size_bytes", "Size of a segment.")
	descShmBytes    = describe("shuffled_shm_bytes",
		"Shared memory, each byte in one state. All but control add up to --memory, unless somebody has taken more than there was: free; granted to "+
			"partitions; ended, with ended ones whose readers still have them; excess, used without having been granted; left_behind, still held of "+
			"what was given up; earlier_daemon, held by the workers of a daemon before this one. control is for queues and gates, beside --memory.", "state")
	descBacked = describe("shuffled_shm_backed_bytes",
		"What the kernel holds for partitions, their queues included.")
	descHuge = describe("shuffled_shm_huge_page_bytes",
		"How much of shuffled_shm_backed_bytes lies in huge pages.")
	descTaken = describe("shuffled_shm_ungranted_bytes_total",
		"Memory found in use that had not been granted; it is taken away where the kernel lets it go.")
	descHeldBack = describe("shuffled_requests_held_back_seconds_total",
		"Time that requests of users waited who keep the daemon busy while others are there.")
	descLeft = describe("shuffled_left_behind_objects",
		"Partitions and gates that were given up and that somebody still has mapped or open.")
	descLimit = describe("shuffled_limit",
		"What the daemon limits, by the name of the flag; bytes for memory and sizes.", "limit")
	descConnections = describe("shuffled_connections", "Clients connected.")
	descHeap        = describe("shuffled_heap_booked_bytes",
		"What is booked of the daemon's heap for connections, partitions, gates and inputs (--max-heap-memory).")
	descPutOff = describe("shuffled_sends_put_off_total",
		"Attempts to send to a client that the kernel had no means for, such as descriptors, and that were repeated.")
	descGates    = describe("shuffled_gates", "Input gates open.")
	descDraining = describe("shuffled_draining", "1 while the daemon takes nothing new because it is stopping.")
	descCreated  = describe("shuffled_partitions_created_total", "Partitions created.")
	descBytes    = describe("shuffled_bytes_total",
		"Bytes of finished buffers that producers handed over, for each subpartition.")
	descBuffers = describe("shuffled_buffers_total",
		"Data buffers that producers handed over, for each subpartition.")
	descRecords   = describe("shuffled_records_total", "Records that producers have emitted, by their own count.")
	descPressured = describe("shuffled_back_pressured_seconds_total", "Time that producers waited for free segments.")
	descIdle      = describe("shuffled_consumer_idle_seconds_total", "Time that gates waited for data.")
	descWakeUps   = describe("shuffled_wakeups_total", "How often a producer or a consumer slept and was woken.",
		"side")
	descCommit  = describe("shuffled_commit_failures_total", "Grants of segments for which the kernel had no memory.")
	descRejects = describe("shuffled_admission_rejects_total", "What clients asked for and were refused.", "reason")
	descAtLimit = describe("shuffled_limit_rejects_total",
		"What clients asked for and were refused because of a limit, by the name of the limit; see shuffled_limit.",
		"limit")
	descFailed = describe("shuffled_inputs_failed_total",
		"Inputs of gates that ended without end-of-partition, by what became of the partition.", "reason")
	descProtocol = describe("shuffled_protocol_errors_total",
		"Messages that the protocol does not allow; each ended its client's connection.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// inputReasons are the reasons for refusing that are about inputs.
var inputReasons = map[string]bool{
	"partition_not_found": true, "partition_released": true, "partition_expired": true, "partition_failed": true,
	"producer_lost": true,
}

const protocolReason = "protocol"

// Describe implements prometheus.Collector.
func (c snapshotCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descPartitions, descSegments, descWaiting, descSegmentSize, descShmBytes, descBacked, descHuge, descTaken,
		descHeldBack, descLeft, descLimit,
		descConnections, descGates, descDraining, descCreated, descBytes,
		descBuffers, descRecords, descPressured, descIdle, descWakeUps, descCommit, descRejects, descAtLimit,
		descFailed, descProtocol, descHeap, descPutOff,
	} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c snapshotCollector) Collect(out chan<- prometheus.Metric) {
	s := c.snapshot()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}

	type kind struct{ typ, state string }
	partitions := make(map[kind]int)
	for typ := shuffle.Pipelined; typ.Validate() == nil; typ++ {
		for state := shuffle.PartitionCreated; state <= shuffle.PartitionFenced; state++ {
			partitions[kind{typ.String(), state.String()}] = 0
		}
	}
	for i := range s.Partitions {
		partitions[kind{s.Partitions[i].Type.String(), s.Partitions[i].State}]++
	}
	for k, n := range partitions {
		gauge(descPartitions, float64(n), k.typ, k.state)
	}

	size := float64(s.SegmentSize)
	gauge(descSegments, float64(s.Pool.Available), "free")
	gauge(descSegments, float64(s.Pool.Used), "granted")
	gauge(descSegments, float64(s.Pool.Required), "promised")
	gauge(descSegments, float64(s.Pool.Reserved), "reserved")
	gauge(descWaiting, float64(s.Pool.Waiting))
	gauge(descSegmentSize, size)
	gauge(descShmBytes, float64(s.Memory.Free), "free")
	gauge(descShmBytes, float64(s.Memory.Granted), "granted")
	gauge(descShmBytes, float64(s.Memory.Ended), "ended")
	gauge(descShmBytes, float64(s.Memory.Excess), "excess")
	gauge(descShmBytes, float64(s.Memory.LeftBehind), "left_behind")
	gauge(descShmBytes, float64(s.Memory.Earlier), "earlier_daemon")
	gauge(descShmBytes, float64(s.ControlBytes), "control")
	gauge(descBacked, float64(s.BackedBytes))
	gauge(descHuge, float64(s.HugePageBytes))
	gauge(descLeft, float64(s.Memory.LeftBehindObjects))
	collectLimits(gauge, &s)
	gauge(descConnections, float64(s.Connections))
	gauge(descHeap, float64(s.HeapBytes))
	counter(descPutOff, float64(s.SendsPutOff))
	gauge(descGates, float64(s.Gates))
	gauge(descDraining, oneIf(s.Draining))

	counter(descCreated, float64(s.Totals.PartitionsCreated))
	counter(descBytes, float64(s.Totals.BytesOut))
	counter(descBuffers, float64(s.Totals.BuffersOut))
	counter(descRecords, float64(s.Totals.Records))
	counter(descPressured, s.Totals.BackPressured.Seconds())
	counter(descIdle, s.Totals.ConsumerIdle.Seconds())
	counter(descWakeUps, float64(s.Totals.ProducerWakeUps), "producer")
	counter(descWakeUps, float64(s.Totals.ConsumerWakeUps), "consumer")
	counter(descCommit, float64(s.Totals.CommitFailures))
	counter(descTaken, float64(s.Totals.UngrantedBytes))
	counter(descHeldBack, s.Totals.HeldBack.Seconds())
	for _, limit := range daemon.LimitNames() {
		counter(descAtLimit, float64(s.LimitRejects[limit]), limit)
	}
	for _, reason := range daemon.RejectReasons() {
		n := float64(s.Rejects[reason])
		switch {
		case reason == protocolReason:
			counter(descProtocol, n)
		case inputReasons[reason]:
			counter(descFailed, n, reason)
		default:
			counter(descRejects, n, reason)
		}
	}
}
