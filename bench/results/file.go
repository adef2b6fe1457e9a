package results

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// FormatVersion is the version of the files that are written and read.
const FormatVersion = 1

// A File is the outcome of one run of a workload. What was not measured is
// absent from its JSON.
type File struct {
	Format   int    `json:"format"`
	Workload string `json:"workload"`
	// Started is when the run began, in UTC; zero if the file does not say.
	Started time.Time `json:"started,omitzero"`
	// Partial says why the run ended before its plan did; the results are those
	// of the rounds that were complete.
	Partial string         `json:"partial,omitempty"`
	Machine Machine        `json:"machine"`
	Results []*Measurement `json:"results"`
}

// New returns a file without results, of a run on this machine.
func New(workload string) *File {
	return &File{Format: FormatVersion, Workload: workload, Started: time.Now().UTC().Truncate(time.Second),
		Machine: ThisMachine()}
}

// Add adds a round to the measurement with the given settings, which it makes if
// this is its first.
func (f *File) Add(s Settings, r Round) *Measurement {
	m := f.find(s)
	if m == nil {
		m = &Measurement{Settings: s}
		f.Results = append(f.Results, m)
	}
	m.Rounds = append(m.Rounds, r)
	return m
}

// find returns the measurement with the settings, or nil.
func (f *File) find(s Settings) *Measurement {
	for _, m := range f.Results {
		if m.Settings == s {
			return m
		}
	}
	return nil
}

// End works out the medians and ratios of a run that is over and returns the file
// with the error that ended it: nil if it is complete, else the file is marked as
// partial. Of a run that failed before a round was complete there is no file.
func (f *File) End(err error) (*File, error) {
	if err != nil && len(f.Results) == 0 {
		return nil, err
	}
	if err != nil {
		f.Partial = err.Error()
	}
	f.Summarise()
	return f, err
}

// Summarise works out the medians and ratios from the rounds.
func (f *File) Summarise() {
	for _, m := range f.Results {
		m.summarise()
	}
	all := f.bySettings()
	for _, kind := range ratioKinds {
		for _, m := range f.Results {
			*kind.in(m) = 0
			if base := all[kind.base(m.Settings)]; base != nil {
				*kind.in(m) = ratio(m.Medians[kind.of], base.Medians[kind.of])
			}
		}
	}
}

func (f *File) bySettings() map[Settings]*Measurement {
	all := make(map[Settings]*Measurement)
	for _, m := range f.Results {
		all[m.Settings] = m
	}
	return all
}

// WriteJSON writes the file.
func (f *File) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(f); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
