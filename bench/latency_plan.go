package bench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"shuffled/bench/results"
	"shuffled/internal/units"
)

// A Path is the way of a record whose latency is measured.
type Path string

// The paths: from a producer to a consumer, or there and back.
const (
	OneWay    Path = "one-way"
	RoundTrip Path = "round-trip"
)

var paths = []Path{OneWay, RoundTrip}

// ParsePaths reads a comma-separated list.
func ParsePaths(list string) ([]Path, error) { return parseNames("path", list, paths) }

// Waiting is what a worker does that has to wait.
type Waiting string

// The ways to wait.
const (
	Parked   Waiting = "parked"
	Spinning Waiting = "spinning"
)

// ParseWaiting reads parked, spinning, or both.
func ParseWaiting(text string) ([]Waiting, error) {
	switch text {
	case string(Parked), string(Spinning):
		return []Waiting{Waiting(text)}, nil
	case "both":
		return []Waiting{Parked, Spinning}, nil
	}
	return nil, fmt.Errorf("%q, want parked, spinning or both", text)
}

// LatencyTransports lists the transports of latency measurements.
var LatencyTransports = []Transport{Shm, Unix, TCP, Pipe, Futex, CacheLine}

// ParseLatencyTransports reads a comma-separated list.
func ParseLatencyTransports(list string) ([]Transport, error) {
	return parseNames("transport", list, LatencyTransports)
}

// oneWayTransports have records, roundTrips what a round trip can be: the bare
// ones wait in one way only, and have no records.
var (
	oneWayTransports = []Transport{Shm, Unix, TCP, Pipe}
	roundTrips       = []latencyPlan{
		{transport: Shm, waiting: Parked},
		{transport: Futex, waiting: Parked},
		{transport: Unix, waiting: Parked},
		{transport: Shm, waiting: Spinning},
		{transport: CacheLine, waiting: Spinning},
	}
)

// A latencyPlan is one combination that is measured. What it does not have is
// zero.
type latencyPlan struct {
	path      Path
	transport Transport
	waiting   Waiting
	size      int
	rate      float64
	flush     time.Duration // of Shm
}

// plan returns what takes turns.
func (l *Latency) plan() (plan []latencyPlan) {
	for _, path := range l.Paths {
		for _, size := range l.Sizes {
			if path == RoundTrip {
				plan = append(plan, l.planRoundTrips(size)...)
			} else {
				plan = append(plan, l.planOneWay(size)...)
			}
		}
	}
	// One measurement of what has no records does for all sizes.
	var once []latencyPlan
	for _, p := range plan {
		if !slices.Contains(once, p) {
			once = append(once, p)
		}
	}
	return once
}

func (l *Latency) planRoundTrips(size int) (plan []latencyPlan) {
	for _, p := range roundTrips {
		if !slices.Contains(l.Transports, p.transport) || !slices.Contains(l.Waitings, p.waiting) {
			continue
		}
		p.path = RoundTrip
		if p.transport != Futex && p.transport != CacheLine {
			p.size = size
		}
		plan = append(plan, p)
	}
	return plan
}

func (l *Latency) planOneWay(size int) (plan []latencyPlan) {
	waiting := Spinning
	if !slices.Contains(l.Waitings, Spinning) {
		waiting = Parked
	}
	for _, rate := range l.Rates {
		for _, transport := range oneWayTransports {
			if !slices.Contains(l.Transports, transport) {
				continue
			}
			p := latencyPlan{path: OneWay, transport: transport, waiting: waiting, size: size, rate: rate}
			if transport != Shm {
				plan = append(plan, p)
				continue
			}
			for _, flush := range l.FlushTimeouts {
				p.flush = flush
				plan = append(plan, p)
			}
		}
	}
	return plan
}

// files returns what the workers must be started with: a stream each way, or the
// page that they share. The caller closes them, also after an error.
func (p latencyPlan) files() (producer, consumer []*os.File, err error) {
	switch p.transport {
	case Shm:
		return nil, nil, nil
	case Futex, CacheLine:
		page, err := createBarePage()
		if err != nil {
			return nil, nil, err
		}
		return []*os.File{page}, []*os.File{page}, nil
	}
	w, r, err := p.transport.connect()
	if err != nil {
		return nil, nil, err
	}
	producer, consumer = []*os.File{w}, []*os.File{r}
	if p.path == RoundTrip {
		if w, r, err = p.transport.connect(); err != nil {
			return producer, consumer, err
		}
		// Each worker has the stream to the other one first.
		producer, consumer = append(producer, r), []*os.File{w, consumer[0]}
	}
	return producer, consumer, nil
}

func (p latencyPlan) settings(pinned bool) results.Settings {
	s := results.Settings{
		Transport: string(p.transport), Path: string(p.path), Waiting: string(p.waiting), RecordSize: p.size,
		RatePerS: p.rate,
	}
	if p.transport == Shm {
		s.FlushTimeout = formatFlushTimeout(p.flush)
	}
	if pinned {
		s.Pinned = "on"
	}
	return s
}

// String says what is measured.
func (p latencyPlan) String() string {
	text := fmt.Sprintf("%s %s %s", p.path, p.transport, p.waiting)
	if p.size > 0 {
		text += fmt.Sprintf(", %d bytes", p.size)
	}
	if p.rate > 0 {
		text += fmt.Sprintf(", %s/s", formatRate(p.rate))
	}
	if p.transport == Shm && p.path == OneWay {
		text += ", flush " + formatFlushTimeout(p.flush)
	}
	return text
}

func planWidth(plan []latencyPlan) (width int) {
	for _, p := range plan {
		width = max(width, len(p.String()))
	}
	return width
}

func formatRate(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) }

// note says what is wrong with a round.
func (p latencyPlan) note(r results.Round) (note string) {
	if results.IsSaturated(p.rate, r[results.AchievedPerS]) {
		note = fmt.Sprintf("  saturated: %s records/s of %s, so latencies are those of a queue that grows",
			formatRate(float64(int64(r[results.AchievedPerS]))), formatRate(p.rate))
	}
	if beyond := r[results.BeyondHistogram]; beyond > 0 {
		note += fmt.Sprintf("  %s took more than %v and count as that", units.Plural(int(beyond), "record"),
			highestLatency)
	}
	return note
}

// MaxRate is the highest rate that can be planned, in records a second: one for
// which looking at the clock leaves some time for sending.
const MaxRate = 10e6

// ParseRates reads a comma-separated list of rates above 0 and up to MaxRate.
func ParseRates(list string) ([]float64, error) {
	return parseList("rate", list, func(field string) (float64, error) {
		rate, err := strconv.ParseFloat(field, 64)
		if err != nil || !(rate > 0 && rate <= MaxRate) {
			return 0, fmt.Errorf("want records a second, more than 0 and at most %s", formatRate(MaxRate))
		}
		return rate, nil
	})
}
