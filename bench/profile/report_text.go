package profile

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"shuffled/internal/units"
)

// WriteText writes a report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", r.Title)
	for _, t := range r.Tables {
		text.WriteByte('\n')
		t.write(&text)
	}
	for _, c := range r.Charts {
		text.WriteByte('\n')
		c.write(&text)
	}
	text.WriteByte('\n')
	for _, line := range r.Lines {
		fmt.Fprintf(&text, "%s\n", line)
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}

func (t *Table) write(w io.Writer) {
	all := append([][]string{t.Head}, t.Rows...)
	widths := make([]int, len(t.Head))
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + space)
			} else {
				line.WriteString("  " + space + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// barWidth is how many characters the bar of half of all has.
const barWidth = 12

func (c *Chart) write(w io.Writer) {
	t := Table{Head: []string{c.Title}}
	for _, name := range c.Series {
		t.Head = append(t.Head, name, "")
	}
	for _, b := range c.Buckets {
		row := []string{"  from " + duration(b.From)}
		for i, n := range b.Counts {
			row = append(row, units.GroupDigits(int64(n)), bar(b.Shares[i]))
		}
		t.Rows = append(t.Rows, row)
	}
	t.write(w)
}

// bar draws a share of all. More than half of all is not any longer.
func bar(share float64) string {
	length := min(int(math.Ceil(share*2*barWidth)), barWidth)
	return strings.Repeat("#", length) + strings.Repeat(" ", barWidth-length)
}
