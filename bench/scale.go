package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuffled/bench/results"
	"shuffled/internal/units"
)

// MaxScale is the largest number of partitions of a [Scale].
const MaxScale = 100_000

// A Scale measures what many partitions and gates at a time take of one daemon
// and of the workers that have them. One process has all partitions, of one
// subpartition each, another one has a gate for each of them. Nobody else should use
// the daemon meanwhile.
type Scale struct {
	Environment
	Partitions []int
	Rounds     int
	// Idle is for how long nothing flows while processor time is measured.
	Idle time.Duration
	// FlushTimeout is that of all writers, as writer.WithBufferTimeout has it.
	FlushTimeout time.Duration
}

// ErrLeak is returned when a daemon holds more after a round than before.
var ErrLeak = errors.New("the daemon has not given everything back")

// Run measures. Numbers that do not fit the limits of this machine are replaced
// by the largest one that does, and the file is marked as partial. A record that
// is not what was due is ErrContent. With an error it also returns the rounds
// before it, if there are any. It ends all workers before it returns.
func (s *Scale) Run(ctx context.Context) (*results.File, error) {
	file := results.New("scale")
	fmt.Fprintf(s.Out, "machine: %v\n", file.Machine)
	counts, tooMany := s.plan(file.Machine)
	if len(counts) == 0 {
		return nil, errors.New(tooMany)
	}
	if tooMany != "" {
		file.Partial = tooMany
		fmt.Fprintln(s.Out, tooMany)
	}
	most := slices.Max(counts)
	size, err := sizeFor(most, 1, most, 1, false)
	if err != nil {
		return nil, err
	}
	through, err := findDaemonOfSize(ctx, s.Socket, size)
	if err != nil {
		return nil, err
	}
	defer through.stop()
	fmt.Fprintf(s.Out, "daemon: %s\n", through.what)
	fmt.Fprintf(s.Out,
		"plan: a process with all partitions, one with a gate for each; %s of each number; %v of rest and %v idle\n",
		units.Plural(s.Rounds, "round"), scaleRest, s.Idle)
	for round := range s.Rounds {
		for _, n := range counts {
			r, err := s.round(ctx, round+1, n, through)
			if err != nil {
				return file.End(fmt.Errorf("%s, round %d: %w", units.Plural(n, "partition"), round+1, err))
			}
			fmt.Fprintf(s.Out, "round %d: %6d partitions  attach %9v (99%%: %v)%s\n", round+1, n,
				time.Duration(r[results.AttachP50]).Round(100), time.Duration(r[results.AttachP99]).Round(100),
				describeIdle(r))
			file.Add(s.settings(n), r)
		}
	}
	return file.End(nil)
}

func describeIdle(r results.Round) string {
	if _, ok := r[results.DaemonMemory]; !ok {
		return ""
	}
	return fmt.Sprintf("  daemon %s and %s shared, %.0f descriptors, idle %.2f%%  workers idle %.2f%%",
		units.FormatBytes(int64(r[results.DaemonMemory])), units.FormatBytes(int64(r[results.SharedMemory])),
		r[results.DaemonFiles], 100*r[results.DaemonIdleCores], 100*r[results.WorkerIdleCores])
}

func (s *Scale) settings(n int) results.Settings {
	return results.Settings{
		Transport: string(Shm), RecordSize: scaleRecordSize, Producers: 1, Consumers: 1, Partitions: n,
		FlushTimeout: formatFlushTimeout(s.FlushTimeout),
	}
}

// A scaleLimit bounds how many partitions there can be.
type scaleLimit struct {
	most int
	// why says so of a number that is too large, and what to do.
	why func(n int) string
}

// What a partition and its gate take: two descriptors each in the daemon, and in
// each worker four mappings: a region and a doorbell of both.
const (
	descriptorsEach = 4
	mappingsEach    = 4
	spareMappings   = 1024 // for the program and its heap
)

// plan returns the numbers that can be measured, and what is to be said of those
// that cannot.
func (s *Scale) plan(m results.Machine) (counts []int, tooMany string) {
	limits := s.limits(m, uint64(descriptorsEach*slices.Max(s.Partitions)+spareDescriptors))
	fitting := limits[0]
	for _, limit := range limits {
		if limit.most < fitting.most {
			fitting = limit
		}
	}
	for _, n := range s.Partitions {
		if n > fitting.most {
			tooMany = fmt.Sprintf("%d partitions do not fit: %s", n, fitting.why(n))
			n = fitting.most
		}
		if n > 0 && !slices.Contains(counts, n) {
			counts = append(counts, n)
		}
	}
	return counts, tooMany
}

func (s *Scale) limits(m results.Machine, descriptors uint64) []scaleLimit {
	var limits []scaleLimit
	if s.Socket == "" { // another daemon says itself what it has no room for
		files := raiseDescriptorLimit(descriptors)
		limits = append(limits, scaleLimit{int(files-min(files, spareDescriptors)) / descriptorsEach,
			func(n int) string {
				return fmt.Sprintf("the daemon needs %d descriptors, RLIMIT_NOFILE is %d: raise it with ulimit -n %d",
					descriptorsEach*n+spareDescriptors, files, descriptorsEach*n+spareDescriptors)
			}})
	}
	const maxMapCount = "/proc/sys/vm/max_map_count"
	if text, err := os.ReadFile(maxMapCount); err == nil {
		if maps, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			limits = append(limits, scaleLimit{max(maps-spareMappings, 0) / mappingsEach, func(n int) string {
				return fmt.Sprintf("a worker needs %d mappings, vm.max_map_count is %d: raise it with sysctl vm.max_map_count=%d",
					mappingsEach*n+spareMappings, maps, mappingsEach*n+spareMappings)
			}})
		}
	}
	memory := m.Memory
	if m.MemoryLimit > 0 {
		memory = min(memory, m.MemoryLimit)
	}
	each, err := sizeFor(MaxScale, 1, MaxScale, 1, false)
	if err == nil && memory > 0 {
		each := (each.memory + each.control) / MaxScale
		limits = append(limits, scaleLimit{int(memory / 2 / each), func(n int) string {
			return fmt.Sprintf("they take %s of shared memory, there is %s, and half of it is for others: choose fewer with --partitions",
				units.FormatBytes(int64(n)*each), units.FormatBytes(memory))
		}})
	}
	if len(limits) == 0 {
		limits = []scaleLimit{{most: MaxScale}}
	}
	return limits
}

// round measures one number of partitions.
func (s *Scale) round(ctx context.Context, round, n int, through *service) (results.Round, error) {
	crew := newCrew(s.Launcher)
	line := newProgressLine(s.Progress)
	defer line.end()
	watch := newScaleWatch(ctx, through.pid, s.Idle, s.Observer)
	watch.show = func(what string) {
		line.show(fmt.Sprintf("round %d: %s: %s", round, units.Plural(n, "partition"), what))
	}
	crew.observer, crew.settings, crew.daemon = watch, s.settings(n), through
	defer crew.abandon()
	if err := s.start(crew, n, through, s.Fault.in(round)); err != nil {
		return nil, err
	}
	done, err := crew.wait(ctx, func() {
		for _, m := range crew.members {
			if m.role == Consumer {
				watch.show(fmt.Sprintf("%d of %d records", m.done.Bytes/scaleRecordSize, scaleTurns*n))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	r := results.Round{}
	payload := int64(0)
	for _, d := range done {
		if d.Records != int64(scaleTurns*n) {
			return nil, fmt.Errorf("a worker had %d records, want %d: %w", d.Records, scaleTurns*n, ErrContent)
		}
		payload = d.Records * scaleRecordSize
		for metric, v := range d.Figures {
			r[metric] = v
		}
	}
	if err := crew.observed(r, payload); err != nil {
		return nil, err
	}
	return r, watch.awaitBaseline(r)
}

// start starts the consumer, and the producer, which waits for it.
func (s *Scale) start(c *crew, n int, through *service, fault Fault) error {
	fromConsumer, toProducer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start workers: %w", err)
	}
	defer fromConsumer.Close()
	defer toProducer.Close()
	e := scaleExchange{Exchange: Exchange{Name: newExchangeName(), Socket: through.socket}, Partitions: n}
	if err := c.start(Consumer, 0, &scaleConsumer{Scale: e, Fault: fault}, toProducer); err != nil {
		return err
	}
	return c.start(Producer, 0, &scaleProducer{Scale: e, FlushTimeout: s.FlushTimeout, Fault: fault}, fromConsumer)
}
