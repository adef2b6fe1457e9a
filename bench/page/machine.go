package page

import (
	"fmt"
	"reflect"
	"strings"

	"shuffled/bench/results"
	"shuffled/internal/units"
)

// A machine is one that files are of.
type machine struct {
	// Name is a letter if there are several machines.
	Name    string
	Facts   []fact
	Sources []Source
	Files   *table
}

type fact struct{ Name, Text string }

// machines splits files by the machine and how it was set up, which the load
// before a run is not part of.
func machines(sources []Source) (all []*machine) {
	var of []results.Machine
next:
	for _, s := range sources {
		same := s.File.Machine
		same.Load = 0
		for i := range of {
			if reflect.DeepEqual(of[i], same) {
				all[i].Sources = append(all[i].Sources, s)
				continue next
			}
		}
		of = append(of, same)
		all = append(all, &machine{Facts: facts(same), Sources: []Source{s}})
	}
	for i, m := range all {
		if len(all) > 1 {
			m.Name = machineName(i)
		}
		m.Files = filesTable(m.Sources)
	}
	return all
}

// machineName is A to Z, then a number.
func machineName(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return fmt.Sprint(i + 1)
}

// facts lists what is known of a machine.
func facts(m results.Machine) (facts []fact) {
	var caches []string
	for _, c := range m.Caches {
		caches = append(caches, fmt.Sprintf("L%d %s %s", c.Level, c.Type, units.ShortSize(c.Bytes)))
	}
	cores := units.Plural(m.Cores, "core")
	if m.GoMaxProcs != m.Cores {
		cores += fmt.Sprintf(", Go uses %d", m.GoMaxProcs)
	}
	memory := ""
	if m.Memory > 0 {
		memory = units.FormatBytes(m.Memory)
	}
	if m.MemoryLimit > 0 {
		memory = strings.TrimPrefix(memory+", limited to "+units.FormatBytes(m.MemoryLimit), ", ")
	}
	files := ""
	if m.NoFile > 0 {
		files = units.GroupDigits(int64(m.NoFile))
	}
	for _, f := range []fact{
		{"Processor", m.CPU}, {"Cores", cores}, {"Caches", strings.Join(caches, ", ")}, {"Memory", memory},
		{"Kernel", m.Kernel}, {"Go", m.Go}, {"Huge pages", m.THP}, {"Huge pages, shared memory", m.ShmemTHP},
		{"Frequency governor", m.Governor}, {"Open files", files},
	} {
		if f.Text != "" {
			facts = append(facts, f)
		}
	}
	return facts
}

// filesTable lists the files of a machine.
func filesTable(sources []Source) *table {
	t := &table{Caption: "Files", Head: []string{"file", "workload", "started, UTC", "load before", "what"}, Names: 1,
		Words: 5}
	for _, s := range sources {
		started, load, what := "", "", describe(s.File)
		if !s.File.Started.IsZero() {
			started = s.File.Started.UTC().Format("2006-01-02 15:04")
		}
		if s.File.Machine.Load > 0 {
			load = fmt.Sprintf("%.2f", s.File.Machine.Load)
		}
		if s.File.Partial != "" {
			what = "partial: " + what
		}
		t.Rows = append(t.Rows, []cell{{Text: s.Name}, {Text: s.File.Workload}, {Text: started}, {Text: load},
			{Text: what}})
	}
	return t
}
