package results

import (
	"cmp"
	"fmt"

	"shuffled/internal/units"
)

// differences says in what two machines differ that a measurement depends on. The
// load is not among it, nor is Go: programs bring their own.
func (m Machine) differences(other Machine) (list []string) {
	for _, d := range []struct{ what, a, b string }{
		{"CPU", m.CPU, other.CPU},
		{"cores", fmt.Sprint(m.Cores), fmt.Sprint(other.Cores)},
		{"GOMAXPROCS", fmt.Sprint(m.GoMaxProcs), fmt.Sprint(other.GoMaxProcs)},
		{"caches", fmt.Sprint(m.Caches), fmt.Sprint(other.Caches)},
		{"kernel", m.Kernel, other.Kernel},
		{"THP", m.THP, other.THP},
		{"THP of shared memory", m.ShmemTHP, other.ShmemTHP},
		{"memory", formatSize(m.Memory), formatSize(other.Memory)},
		{"memory limit", formatSize(m.MemoryLimit), formatSize(other.MemoryLimit)},
		{"governor", m.Governor, other.Governor},
	} {
		if d.a != d.b {
			list = append(list, fmt.Sprintf("%s %s and %s", d.what, cmp.Or(d.a, "none"), cmp.Or(d.b, "none")))
		}
	}
	return list
}

// formatSize returns nothing for zero.
func formatSize(n int64) string {
	if n == 0 {
		return ""
	}
	return units.FormatBytes(n)
}

// String returns a cache as "L2 unified 1.0 MiB".
func (c Cache) String() string {
	return fmt.Sprintf("L%d %s %s", c.Level, c.Type, units.FormatBytes(c.Bytes))
}
