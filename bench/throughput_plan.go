package bench

import (
	"fmt"
	"strings"
	"time"

	"shuffled/bench/results"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A plannedRound is one transport with one size and one combination of the
// settings that it has.
type plannedRound struct {
	name         string // of the transport, with what others of it differ in
	transport    Transport
	size         int
	distribution Distribution // empty for a single consumer
	variant      Variant      // of Shm
}

// plan returns what takes turns, and says what is left out. segment is how many
// bytes a segment of the daemon has.
func (t *Throughput) plan(segment int) (plan []plannedRound) {
	for _, size := range t.Sizes {
		for _, transport := range t.Transports {
			if err := transport.check(size, t.Producers, t.Consumers); err != nil {
				t.leaveOut(string(transport), size, err)
				continue
			}
			for _, distribution := range t.distributions() {
				for _, variant := range t.variants(transport) {
					p := plannedRound{transport: transport, size: size, distribution: distribution, variant: variant}
					p.name = t.name(p)
					if most := segment - framePrefix; variant.Via == Reserve && size > most {
						t.leaveOut(p.name, size,
							fmt.Errorf("a record that is written in place must fit a segment, at most %d bytes", most))
						continue
					}
					plan = append(plan, p)
				}
			}
		}
	}
	return plan
}

func (t *Throughput) leaveOut(name string, size int, why error) {
	fmt.Fprintf(t.Out, "left out: %s with %d bytes: %v\n", name, size, why)
}

func (t *Throughput) distributions() []Distribution {
	if t.Consumers == 1 {
		return []Distribution{""}
	}
	return orDefault(t.Distributions, Keyed)
}

func (t *Throughput) variants(transport Transport) (variants []Variant) {
	if transport != Shm {
		return []Variant{{}}
	}
	for _, partitionType := range orDefault(t.PartitionTypes, shuffle.PipelinedBounded) {
		for _, timeout := range orDefault[time.Duration](t.FlushTimeouts, writer.DefaultBufferTimeout) {
			for _, via := range orDefault(t.Vias, Emit) {
				variants = append(variants, Variant{partitionType, timeout, via})
			}
		}
	}
	return variants
}

func orDefault[T any](list []T, single T) []T {
	if len(list) == 0 {
		return []T{single}
	}
	return list
}

// name names a transport and those of its settings that are measured with
// several values.
func (t *Throughput) name(p plannedRound) string {
	words := []string{string(p.transport)}
	if p.variant != (Variant{}) && len(t.PartitionTypes) > 1 {
		words = append(words, partitionTypeName(p.variant.PartitionType))
	}
	if p.variant != (Variant{}) && len(t.FlushTimeouts) > 1 {
		words = append(words, "flush "+formatFlushTimeout(p.variant.FlushTimeout))
	}
	if p.variant != (Variant{}) && len(t.Vias) > 1 {
		words = append(words, string(p.variant.Via))
	}
	if p.distribution != "" && len(t.Distributions) > 1 {
		words = append(words, string(p.distribution))
	}
	return strings.Join(words, " ")
}

// nameWidth is how wide the names of a plan are in a column.
func nameWidth(plan []plannedRound) int {
	width := len("ceiling") + 1
	for _, p := range plan {
		width = max(width, len(p.name))
	}
	return width
}

func (t *Throughput) settings(p plannedRound) results.Settings {
	s := results.Settings{
		Transport: string(p.transport), RecordSize: p.size, Producers: t.Producers, Consumers: t.Consumers,
		Distribution: string(p.distribution),
	}
	if t.Pin {
		s.Pinned = "on"
	}
	if p.variant != (Variant{}) {
		p.variant.describe(&s)
	}
	return s
}
