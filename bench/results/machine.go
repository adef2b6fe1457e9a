package results

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"shuffled/internal/units"
)

// A Machine is what a measurement depends on. What the system does not tell is
// absent.
type Machine struct {
	CPU   string `json:"cpu,omitempty"`
	Cores int    `json:"cores"`
	// GoMaxProcs is how many of them Go uses.
	GoMaxProcs int     `json:"gomaxprocs"`
	Caches     []Cache `json:"caches,omitempty"`
	Kernel     string  `json:"kernel,omitempty"`
	// THP and ShmemTHP are the settings of transparent huge pages.
	THP      string `json:"transparent_hugepage,omitempty"`
	ShmemTHP string `json:"transparent_hugepage_shmem,omitempty"`
	Memory   int64  `json:"memory_bytes,omitempty"`
	// MemoryLimit is that of the control group, absent if there is none.
	MemoryLimit int64  `json:"memory_limit_bytes,omitempty"`
	NoFile      uint64 `json:"rlimit_nofile,omitempty"`
	Go          string `json:"go"`
	Governor    string `json:"governor,omitempty"`
	// Load is how many tasks wanted a core in the last minute before the run.
	Load float64 `json:"load_average,omitempty"`
}

// A Cache is one of those that the first core uses.
type Cache struct {
	Level int    `json:"level"`
	Type  string `json:"type"`
	Bytes int64  `json:"bytes"`
}

// ThisMachine looks at the machine it runs on.
func ThisMachine() Machine { return describeMachine("/") }

// describeMachine reads the files of the system below root.
func describeMachine(root string) Machine {
	files := systemFiles{root}
	m := Machine{
		CPU: files.field("proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), GoMaxProcs: runtime.GOMAXPROCS(0),
		Caches: files.caches(), Kernel: files.line("proc/sys/kernel/osrelease"),
		THP:         chosen(files.line("sys/kernel/mm/transparent_hugepage/enabled")),
		ShmemTHP:    chosen(files.line("sys/kernel/mm/transparent_hugepage/shmem_enabled")),
		Memory:      parseKiB(files.field("proc/meminfo", "MemTotal")),
		MemoryLimit: files.memoryLimit(),
		Go:          runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Governor:    files.line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
	}
	load, _, _ := strings.Cut(files.line("proc/loadavg"), " ")
	m.Load, _ = strconv.ParseFloat(load, 64)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		m.NoFile = limit.Cur
	}
	return m
}

// systemFiles reads files that the kernel makes. What is not there is empty.
type systemFiles struct{ root string }

func (f systemFiles) read(path string) string {
	b, err := os.ReadFile(filepath.Join(f.root, path))
	if err != nil {
		return ""
	}
	return string(b)
}

func (f systemFiles) line(path string) string { return strings.TrimSpace(f.read(path)) }

// field returns the value of the first line "name: value".
func (f systemFiles) field(path, name string) string {
	for line := range strings.Lines(f.read(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (f systemFiles) caches() (caches []Cache) {
	const dir = "sys/devices/system/cpu/cpu0/cache"
	for i := 0; ; i++ {
		index := fmt.Sprintf("%s/index%d/", dir, i)
		level, err := strconv.Atoi(f.line(index + "level"))
		if err != nil {
			return caches
		}
		bytes := parseKiB(f.line(index + "size"))
		caches = append(caches, Cache{Level: level, Type: strings.ToLower(f.line(index + "type")), Bytes: bytes})
	}
}

// memoryLimit returns the lowest limit of this process's control groups, of
// either version.
func (f systemFiles) memoryLimit() (lowest int64) {
	for line := range strings.Lines(f.read("proc/self/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		dir, name := "sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			dir, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		if fields[1] != "" && !strings.Contains(","+fields[1]+",", ",memory,") {
			continue
		}
		for group := fields[2]; ; group = filepath.Dir(group) {
			limit, err := strconv.ParseInt(f.line(filepath.Join(dir, group, name)), 10, 64)
			const none = 1 << 60 // version 1 writes a huge number
			if err == nil && limit > 0 && limit < none && (lowest == 0 || limit < lowest) {
				lowest = limit
			}
			if len(group) <= 1 {
				break
			}
		}
	}
	return lowest
}

// parseKiB reads numbers such as "2048K" and "24105 kB".
func parseKiB(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimRight(s, " KkB"), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// chosen returns the word in brackets of a list such as "always [madvise] never".
func chosen(s string) string {
	_, rest, _ := strings.Cut(s, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

// String describes the machine in a line.
func (m Machine) String() string {
	parts := []string{m.CPU, fmt.Sprintf("%d cores", m.Cores)}
	for _, c := range m.Caches {
		if c.Type != "instruction" {
			parts = append(parts, fmt.Sprintf("L%d %s", c.Level, units.FormatBytes(c.Bytes)))
		}
	}
	parts = append(parts, "Linux "+m.Kernel, m.Go)
	if m.THP != "" {
		parts = append(parts, "THP "+m.THP)
	}
	if m.MemoryLimit > 0 {
		parts = append(parts, "limited to "+units.FormatBytes(m.MemoryLimit))
	}
	if m.Governor != "" {
		parts = append(parts, "governor "+m.Governor)
	}
	if m.Load > 0 {
		parts = append(parts, fmt.Sprintf("load %.1f", m.Load))
	}
	return strings.Join(parts, ", ")
}
