package cli

import (
	"slices"
	"strings"
)

// Unknown is the UsageError for a name that is none of some, with the one that was
// probably meant.
func Unknown(kind, name string, names []string) error {
	prefix := ""
	if strings.HasPrefix(name, "-") {
		prefix = "--"
	}
	var plain []string
	for _, n := range names {
		plain = append(plain, strings.TrimLeft(n, "-"))
	}
	if hint := DidYouMean(strings.TrimLeft(name, "-"), plain, prefix); hint != "" {
		return Usagef("unknown %s %q%s", kind, name, hint)
	}
	return Usagef("unknown %s %q: want one of %s", kind, name, strings.Join(slices.Sorted(slices.Values(names)), ", "))
}

// DidYouMean words a suggestion for a name that nobody knows, ": did you mean
// --memory?", or returns "" if no known one is near. Each name is shown behind
// the prefix.
func DidYouMean(name string, known []string, prefix string) string {
	nearest, nearestDistance := "", len(name)
	for _, k := range known {
		distance := editDistance(strings.ToLower(name), strings.ToLower(k))
		if len(name) >= 3 && strings.HasPrefix(k, name) {
			distance = 1 // an abbreviation
		}
		if distance < nearestDistance {
			nearest, nearestDistance = k, distance
		}
	}
	if nearest == "" || nearestDistance > max(2, len(name)/2) {
		return ""
	}
	return ": did you mean " + prefix + nearest + "?"
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (the optimal string alignment distance).
func editDistance(a, b string) int {
	// Rows i-2, i-1 and i of the table.
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
