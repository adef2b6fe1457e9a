package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"shuffled/internal/daemon"
	"shuffled/internal/test/daemontest"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// exchange sends records of a size through a new partition, whose producer and
// consumer are two clients, and returns the counters of the producer. While it
// runs, the partition is what check sees in the metrics.
func exchange(t *testing.T, d *daemontest.Daemon, spec shuffle.PartitionSpec, records, size int,
	check func()) writer.Counters {
	t.Helper()
	producer, consumer := dial(t, d), dial(t, d)
	p, err := producer.CreatePartition(testContext(t), spec)
	require.NoError(t, err)
	inputs := make([]shuffle.Input, spec.Subpartitions)
	for i := range inputs {
		inputs[i] = shuffle.Input{Partition: spec.ID, Subpartition: i}
	}
	gate, err := consumer.OpenGate(testContext(t), shuffle.GateSpec{Inputs: inputs})
	require.NoError(t, err)
	w, err := writer.New(p, shuffle.Bytes{}, writer.Rebalance[[]byte]())
	require.NoError(t, err)

	wrote := make(chan error, 1)
	go func() {
		record := make([]byte, size)
		for range records {
			if err := w.Emit(context.Background(), record); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- w.Finish(context.Background())
	}()
	got := 0
	for rec, err := range reader.Records(testContext(t), gate, shuffle.Bytes{}) {
		require.NoError(t, err)
		require.Len(t, rec, size)
		if got++; got == records {
			check()
		}
	}
	require.NoError(t, <-wrote)
	require.Equal(t, records, got)
	counters := w.Counters()
	require.NoError(t, gate.Close())
	require.NoError(t, w.Close())
	require.NoError(t, producer.Close())
	require.NoError(t, consumer.Close())
	eventually(t, "the memory is given back",
		func() bool { return d.Metrics()[`shuffled_segments{state="granted"}`] == 0 })
	return counters
}

// requireStatesAddUp checks that each byte of the budget is in one state.
func requireStatesAddUp(t *testing.T, metrics map[string]float64) {
	t.Helper()
	sum := 0.0
	for _, state := range []string{"free", "granted", "ended", "excess", "left_behind", "earlier_daemon"} {
		require.Contains(t, metrics, `shuffled_shm_bytes{state="`+state+`"}`)
		sum += metrics[`shuffled_shm_bytes{state="`+state+`"}`]
	}
	require.Equal(t, 64.0*(1<<20), sum)
}

func TestMetricsCountWhatClientsCount(t *testing.T) {
	d := start(t)
	const records, size, subpartitions = 50_000, 100, 2
	spec := shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: subpartitions, FloatingBuffers: 1}
	var during map[string]float64
	counters := exchange(t, d, spec, records, size, func() { during = d.Metrics() })
	require.Equal(t, int64(records*(4+size)), counters.Bytes)

	const running = `shuffled_partitions{state="running",type="PIPELINED_BOUNDED"}`
	const finished = `shuffled_partitions{state="finished",type="PIPELINED_BOUNDED"}`
	require.Equal(t, 1.0, during[running]+during[finished])
	require.Equal(t, 2.0, during["shuffled_connections"])
	require.Equal(t, 1.0, during["shuffled_gates"])
	require.Equal(t, 3*during[running], during[`shuffled_segments{state="promised"}`],
		"a finished one is promised nothing")
	require.Positive(t, during[`shuffled_segments{state="granted"}`])
	require.Contains(t, during, `shuffled_segments{state="reserved"}`)
	require.Zero(t, during["shuffled_creations_waiting"])
	require.Positive(t, during[`shuffled_shm_bytes{state="control"}`])
	require.Positive(t, during["shuffled_shm_backed_bytes"])
	require.Contains(t, during, "shuffled_shm_huge_page_bytes")
	require.Equal(t, 2048.0, during[`shuffled_segments{state="granted"}`]+during[`shuffled_segments{state="free"}`])
	requireStatesAddUp(t, during)
	require.Equal(t, 64.0*(1<<20), during[`shuffled_limit{limit="memory"}`])
	require.Equal(t, 100_000.0, during[`shuffled_limit{limit="max-partitions"}`])

	// What has ended stays counted, to the byte, once nobody maps it any more.
	var after map[string]float64
	eventually(t, "everything is given back", func() bool {
		after = d.Metrics()
		return after["shuffled_left_behind_objects"] == 0 && after[running]+after[finished] == 0
	})
	requireStatesAddUp(t, after)
	require.Equal(t, float64(counters.Bytes), after["shuffled_bytes_total"])
	require.Equal(t, float64(counters.Buffers), after["shuffled_buffers_total"])
	require.Equal(t, float64(counters.Records), after["shuffled_records_total"])
	require.InDelta(t, counters.BackPressured.Seconds(), after["shuffled_back_pressured_seconds_total"], 1e-9)
	require.Equal(t, 1.0, after["shuffled_partitions_created_total"])
	require.Equal(t, float64(subpartitions), after["shuffled_attach_seconds_count"])
	require.Zero(t, after[running]+after[finished])
	require.Zero(t, after[`shuffled_shm_bytes{state="control"}`])
	require.Zero(t, after["shuffled_shm_backed_bytes"])
	require.Zero(t, after["shuffled_protocol_errors_total"])
	require.Equal(t, 1.0,
		after[`shuffled_build_info{goversion="`+goVersion(t, after)+`",version="`+programVersion()+`"}`])
	require.Positive(t, after["go_goroutines"])
	require.Positive(t, after["process_open_fds"])

	again := exchange(t, d, shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1}, 1000, size, func() {
		for name, value := range d.Metrics() {
			if strings.HasPrefix(name, "shuffled_") && strings.HasSuffix(name, "_total") {
				require.GreaterOrEqual(t, value, after[name], name)
			}
		}
	})
	require.Equal(t, float64(counters.Bytes+again.Bytes), d.Metrics()["shuffled_bytes_total"])
}

// goVersion finds the version that build_info shows.
func goVersion(t *testing.T, metrics map[string]float64) string {
	t.Helper()
	for name := range metrics {
		if _, rest, ok := strings.Cut(name, `shuffled_build_info{goversion="`); ok {
			v, _, _ := strings.Cut(rest, `"`)
			return v
		}
	}
	require.Fail(t, "no shuffled_build_info")
	return ""
}

func TestWaitsAreCountedOnTheirSide(t *testing.T) {
	d := start(t)
	c := dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1, BuffersPerChannel: 1,
		FloatingBuffers: 1})
	require.NoError(t, err)
	w, err := writer.New(p, shuffle.Bytes{}, writer.Forward[[]byte]())
	require.NoError(t, err)
	gate := oneInput(t, c, id)

	read := make(chan error, 1)
	go func() { // parks until the first record
		b, err := gate.Next(context.Background())
		if err == nil {
			b.Release()
		}
		read <- err
	}()
	eventually(t, "the consumer waits", func() bool {
		info, err := c.Inspect(testContext(t), id)
		return err == nil && info.SubpartitionInfo[0].State == "attached"
	})
	require.NoError(t, w.Emit(testContext(t), make([]byte, 100)))
	require.NoError(t, w.Flush())
	require.NoError(t, <-read)

	wrote := make(chan error, 1)
	go func() { // more than the pool holds
		for range 100 {
			if err := w.Emit(context.Background(), make([]byte, 8<<10)); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- w.Finish(context.Background())
	}()
	eventually(t, "the pool is used up", func() bool { return !p.IsAvailable() })
	for {
		b, err := gate.Next(testContext(t))
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		b.Release()
	}
	require.NoError(t, <-wrote)
	require.NoError(t, gate.Close())
	require.NoError(t, w.Close())
	eventually(t, "both ends are counted", func() bool {
		m := d.Metrics()
		return m["shuffled_gates"] == 0 && m[`shuffled_segments{state="granted"}`] == 0
	})
	m := d.Metrics()
	require.Positive(t, m["shuffled_back_pressured_seconds_total"])
	require.Positive(t, m[`shuffled_wakeups_total{side="producer"}`])
	require.Positive(t, m[`shuffled_wakeups_total{side="consumer"}`])
	require.Positive(t, m["shuffled_consumer_idle_seconds_total"])
}

func TestEachRefusalMovesItsMetric(t *testing.T) {
	d := start(t, "--memory", "1MiB", "--max-partitions", "2", "--max-inputs-per-gate", "2", "--retention", "1s")
	c := dial(t, d)
	rejects := func(reason string) string { return `shuffled_admission_rejects_total{reason="` + reason + `"}` }
	failed := func(reason string) string { return `shuffled_inputs_failed_total{reason="` + reason + `"}` }
	create := func(spec shuffle.PartitionSpec) error {
		if spec.ID.IsZero() {
			spec.ID = shuffle.NewPartitionID()
		}
		p, err := c.CreatePartition(testContext(t), spec)
		if err == nil {
			t.Cleanup(func() { _ = p.Close() })
		}
		return err
	}
	next := func(id shuffle.PartitionID, timeout time.Duration) error {
		gate, err := c.OpenGate(testContext(t), shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}},
			Timeout: timeout})
		require.NoError(t, err)
		defer gate.Close()
		for {
			b, err := gate.Next(testContext(t))
			if err != nil {
				return err
			}
			b.Release()
		}
	}
	ended := func(end func(p shuffle.ResultPartition) error) shuffle.PartitionID {
		id := shuffle.NewPartitionID()
		p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1})
		require.NoError(t, err)
		require.NoError(t, end(p))
		_ = p.Close() // end may have closed it
		return id
	}
	atLimit := func(limit string) string { return `shuffled_limit_rejects_total{limit="` + limit + `"}` }
	taken := shuffle.NewPartitionID()
	require.NoError(t, create(shuffle.PartitionSpec{ID: taken, Subpartitions: 1}))

	for _, row := range []struct {
		metric string
		want   error
		cause  func() error
	}{
		{rejects("already_exists"), shuffle.ErrAlreadyExists,
			func() error { return create(shuffle.PartitionSpec{ID: taken, Subpartitions: 1}) }},
		{rejects("insufficient_buffers"), shuffle.ErrInsufficientBuffers,
			func() error { return create(shuffle.PartitionSpec{Subpartitions: 100}) }},
		{rejects("quota_exceeded"), shuffle.ErrQuotaExceeded, func() error {
			_, err := c.OpenGate(testContext(t), shuffle.GateSpec{Inputs: make3Inputs()})
			return err
		}},
		{atLimit("max-inputs-per-gate"), shuffle.ErrQuotaExceeded, func() error {
			_, err := c.OpenGate(testContext(t), shuffle.GateSpec{Inputs: make3Inputs()})
			return err
		}},
		{atLimit("memory"), shuffle.ErrInsufficientBuffers,
			func() error { return create(shuffle.PartitionSpec{Subpartitions: 100}) }},
		{failed("partition_not_found"), shuffle.ErrPartitionNotFound,
			func() error { return next(shuffle.NewPartitionID(), time.Millisecond) }},
		{failed("partition_failed"), shuffle.ErrPartitionFailed, func() error {
			return next(ended(func(p shuffle.ResultPartition) error {
				return p.Fail(testContext(t), errors.New("cause"))
			}), time.Hour)
		}},
		{failed("partition_released"), shuffle.ErrPartitionReleased, func() error {
			return next(ended(func(p shuffle.ResultPartition) error { return p.Release(testContext(t)) }), time.Hour)
		}},
		{failed("producer_lost"), shuffle.ErrProducerLost, func() error {
			return next(ended(func(p shuffle.ResultPartition) error { return p.Close() }), time.Hour)
		}},
		{rejects("fenced"), shuffle.ErrFenced, func() error {
			id := ended(func(p shuffle.ResultPartition) error { return p.Fail(testContext(t), errors.New("cause")) })
			return create(shuffle.PartitionSpec{ID: id, Subpartitions: 1})
		}},
		{failed("partition_expired"), shuffle.ErrPartitionExpired, func() error {
			id := ended(func(p shuffle.ResultPartition) error { return p.Finish(testContext(t)) })
			eventually(t, "it expires", func() bool {
				_, err := c.Inspect(testContext(t), id)
				return errors.Is(err, shuffle.ErrPartitionExpired)
			})
			return next(id, time.Hour)
		}},
		{rejects("quota_exceeded"), shuffle.ErrQuotaExceeded, func() error {
			require.NoError(t, create(shuffle.PartitionSpec{Subpartitions: 1}))
			return create(shuffle.PartitionSpec{Subpartitions: 1})
		}},
		{"shuffled_protocol_errors_total", io.EOF, func() error { return sendGarbage(t, d.Socket) }},
	} {
		before := d.Metrics()
		require.ErrorIs(t, row.cause(), row.want, row.metric)
		require.Contains(t, before, row.metric, "it is there before it moves")
		eventually(t, row.metric, func() bool { return d.Metrics()[row.metric] > before[row.metric] })
	}
}

func make3Inputs() []shuffle.Input {
	inputs := make([]shuffle.Input, 3)
	for i := range inputs {
		inputs[i].Partition = shuffle.NewPartitionID()
	}
	return inputs
}

// sendGarbage sends what is no message, and returns how the connection ends.
func sendGarbage(t *testing.T, socket string) error {
	t.Helper()
	conn, err := net.Dial("unixpacket", socket)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("\xff\xff\xff\xff"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(daemontest.Patience)))
	buffer := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.EOF
		}
	}
}

func TestForeignUserIsRefusedUnlessAllowed(t *testing.T) {
	if isNotRoot() {
		t.Skip("only root can connect as another user")
	}
	const nobody = "65534"
	for _, row := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitError, "uid 65534 gid 0 may not connect to this daemon"},
		{[]string{"--allowed-uids", nobody}, exitOK, "ID"},
		{[]string{"--allowed-gids", "0"}, exitOK, "ID"},
	} {
		d := start(t, row.args...)
		openToAll(t, d.Socket)
		list := daemontest.Execute(t, []string{asProgram, "TEST_UID=" + nobody}, "list", "--socket", d.Socket)
		require.Equal(t, row.code, list.Code, list.Stderr)
		require.Contains(t, list.Stdout+list.Stderr, row.says)
		require.Equal(t, float64(row.code), d.Metrics()[`shuffled_admission_rejects_total{reason="permission"}`])
	}
}

func TestMetricsFollowTheConventions(t *testing.T) {
	m := newMetrics(probeDegradations(newServeOptions(), math.MaxInt), memoryBudget{}, func() uint64 { return 0 })
	server, err := daemon.NewServer(daemon.Config{Memory: 1 << 20})
	require.NoError(t, err)
	defer server.Close()
	m.watch(server)
	families, err := m.registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		require.NotEmpty(t, f.GetHelp(), f.GetName())
	}
	require.NotContains(t, names, "shuffled_memory_limit_bytes", "what is not known is absent")
	for _, name := range []string{"shuffled_degraded", "shuffled_attach_seconds", "shuffled_admission_rejects_total"} {
		require.Contains(t, names, name)
	}
	for _, f := range families {
		if f.GetName() != "shuffled_limit" {
			continue
		}
		for _, m := range f.GetMetric() {
			require.Contains(t, daemon.LimitNames(), m.GetLabel()[0].GetValue(),
				"limits are called the same in both metrics")
		}
	}
	for reason := range maps.Keys(inputReasons) {
		require.True(t, slices.Contains(daemon.RejectReasons(), reason), reason)
	}
	require.Contains(t, daemon.RejectReasons(), protocolReason)
}
