package cli

import (
	"slices"
	"strings"
)

// Unknown is the UsageError for a name that is none of some, with the one that was
// probably meant.
func Unknown(kind, name string, names []string) error {
	names = slices.Sorted(slices.Values(names))
	typed := strings.TrimLeft(name, "-")
	distance := func(known string) int { return editDistance(typed, strings.TrimLeft(known, "-")) }
	if len(names) > 0 {
		nearest := slices.MinFunc(names, func(a, b string) int { return distance(a) - distance(b) })
		if distance(nearest) <= 2 {
			return Usagef("unknown %s %q: did you mean %s?", kind, name, nearest)
		}
	}
	return Usagef("unknown %s %q: want one of %s", kind, name, strings.Join(names, ", "))
}

// editDistance is how many letters must be added, removed or changed.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
