package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"shuffled/bench/results"
)

// A latencySeries has the latencies of the rounds of one measurement.
type latencySeries struct {
	all    *latencies // of all rounds together; nil before the first
	rounds []latencyRound
}

// A latencyRound is what one round measured.
type latencyRound struct {
	began, ended time.Time
	figures      results.Round
	taken        *encodedLatencies
	workers      time.Duration // processor time of their whole lives
}

func (s *latencySeries) add(r latencyRound) error {
	taken, err := r.taken.decode()
	if err != nil {
		return err
	}
	if s.all == nil {
		s.all = newLatencies()
	}
	s.all.merge(taken)
	s.rounds = append(s.rounds, r)
	return nil
}

// writeHistograms writes two files for each measurement, named by its settings, in
// the formats of HdrHistogram: name.hgrm has the percentiles of all rounds in
// microseconds, for plotters; name.hlog has a compressed histogram in nanoseconds
// for each round. It replaces files of these names.
func writeHistograms(folder string, plan []latencyPlan, series []latencySeries) error {
	for i, p := range plan {
		if series[i].all == nil {
			continue
		}
		for suffix, write := range map[string]func(io.Writer, latencyPlan) error{".hgrm": series[i].writePercentiles,
			".hlog": series[i].writeLog} {
			if err := writeFile(filepath.Join(folder, p.fileName()+suffix),
				func(w io.Writer) error { return write(w, p) }); err != nil {
				return fmt.Errorf("write histogram: %w", err)
			}
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// fileName has the settings in an order in which a listing shows together what
// compares.
func (p latencyPlan) fileName() string {
	text := strings.NewReplacer(", ", "-", " ", "-", "/", "-per-").Replace(p.String())
	return strings.ReplaceAll(text, "-bytes", "B")
}

func (s *latencySeries) writePercentiles(w io.Writer, p latencyPlan) error {
	if _, err := s.all.histogram.PercentilesPrint(w, 5, float64(time.Microsecond)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "#[%s, values in microseconds]\n", p)
	return err
}

func (s *latencySeries) writeLog(w io.Writer, p latencyPlan) error {
	log := hdrhistogram.NewHistogramLogWriter(w)
	start := s.rounds[0].began.UnixMilli()
	err := errors.Join(log.OutputComment(fmt.Sprintf("[%s, values in nanoseconds]", p)), log.OutputLogFormatVersion(),
		log.OutputStartTime(start), log.OutputLegend())
	for _, round := range s.rounds {
		taken, decodeErr := round.taken.decode()
		if err = errors.Join(err, decodeErr); err != nil {
			return err
		}
		taken.histogram.SetStartTimeMs(round.began.UnixMilli())
		taken.histogram.SetEndTimeMs(round.ended.UnixMilli())
		err = log.OutputIntervalHistogram(taken.histogram)
	}
	return err
}
