package profile

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"shuffled/bench/results"
)

// procFolder is where the kernel tells of processes.
const procFolder = "/proc"

// procFigures are those that /proc tells.
var procFigures = map[results.Figure]bool{
	results.ReadWriteCalls: true, results.CopiedToUser: true, results.CopiedFromUser: true,
	results.VoluntarySwitches: true, results.InvoluntarySwitches: true,
	results.PageFaults: true, results.MajorFaults: true,
}

// procFiles reads the files of processes in a folder.
type procFiles struct{ folder string }

// procCounts are counts of one process. Those that could not be read are absent.
type procCounts struct {
	process results.Figures
	// threads has what is counted by thread.
	threads map[string]results.Figures
}

// counts reads what there is to read of a process.
func (f procFiles) counts(pid int) procCounts {
	folder := filepath.Join(f.folder, strconv.Itoa(pid))
	c := procCounts{process: results.Figures{}, threads: make(map[string]results.Figures)}
	// rchar and wchar count what read and write returned, whatever the file is.
	addFields(filepath.Join(folder, "io"), c.process, map[string]results.Figure{
		"rchar": results.CopiedToUser, "wchar": results.CopiedFromUser, "syscr": results.ReadWriteCalls,
		"syscw": results.ReadWriteCalls,
	})
	addFaults(filepath.Join(folder, "stat"), c.process)
	// The status of a process has the switches of its first thread alone.
	threads, err := os.ReadDir(filepath.Join(folder, "task"))
	if err != nil {
		return c
	}
	for _, thread := range threads {
		switches := results.Figures{}
		addFields(filepath.Join(folder, "task", thread.Name(), "status"), switches, map[string]results.Figure{
			"voluntary_ctxt_switches":    results.VoluntarySwitches,
			"nonvoluntary_ctxt_switches": results.InvoluntarySwitches,
		})
		if len(switches) > 0 {
			c.threads[thread.Name()] = switches
		}
	}
	return c
}

// addFields adds the values of lines "name: value". A file that cannot be read has
// none.
func addFields(path string, to results.Figures, names map[string]results.Figure) {
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		figure, ok := names[name]
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		if ok && err == nil {
			to[figure] += float64(n)
		}
	}
}

// addFaults adds the page faults of a process.
func addFaults(path string, to results.Figures) {
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	// The name of the program may have anything in it but ends with the last ")".
	// After it come the state as field 3, minor faults as 10 and major ones as 12.
	fields := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:])
	if len(fields) < 10 {
		return
	}
	minor, err := strconv.ParseUint(fields[10-3], 10, 64)
	if err != nil {
		return
	}
	major, err := strconv.ParseUint(fields[12-3], 10, 64)
	if err != nil {
		return
	}
	to[results.PageFaults], to[results.MajorFaults] = float64(minor+major), float64(major)
}

// update takes later counts. What a process that has ended does not tell any more
// stays.
func (c *procCounts) update(later procCounts) {
	if c.process == nil {
		*c = later
		return
	}
	for figure, v := range later.process {
		c.process[figure] = max(c.process[figure], v)
	}
	maps.Copy(c.threads, later.threads)
}

// since returns how far counts rose.
func (c *procCounts) since(before procCounts) results.Figures {
	rise := results.Figures{}
	for figure, v := range c.process {
		if was, ok := before.process[figure]; ok {
			rise[figure] = max(0, v-was)
		}
	}
	for thread, switches := range c.threads {
		for figure, v := range switches {
			// One that was not there before began at zero.
			rise[figure] += max(0, v-before.threads[thread][figure])
		}
	}
	return rise
}
