package results

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the comparison for people to read: what differs of the
// machines, a line for each figure, and what is in one of the files only.
func (c *Comparison) WriteTable(w io.Writer) error {
	out := &strings.Builder{}
	if len(c.Machines) > 0 {
		fmt.Fprintf(out, "machines differ: %s; only ratios compare\n", strings.Join(c.Machines, "; "))
	}
	constant := c.constantSettings()
	if len(constant) > 0 {
		fmt.Fprintf(out, "settings that do not vary: %s\n", joinSettings(constant))
	}
	if len(c.Rows) > 0 {
		fmt.Fprintln(out)
		c.writeRows(out, constant)
		fmt.Fprintf(out,
			"\nin brackets: where the median lies with a probability of 95 %%; with fewer than 6 rounds, the lowest and highest\n"+
				"n: rounds of A and B; p: probability of such a difference by chance (Mann-Whitney U test); up to %v is a difference\n", significance)
	}
	for _, only := range []struct {
		file string
		of   []Settings
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		for _, s := range only.of {
			fmt.Fprintf(out, "only in %s: %v\n", only.file, s)
		}
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// constantSettings returns those that do not tell rows apart: each row of a
// transport that has the setting at all has this value.
func (c *Comparison) constantSettings() (constant []Setting) {
	type ofTransport struct{ transport, name string }
	has := make(map[ofTransport]bool)
	for _, row := range c.Rows {
		for _, s := range row.Settings.List() {
			has[ofTransport{row.Settings.Transport, s.Name}] = true
			if s.Name != "transport" && !slices.Contains(constant, s) {
				constant = append(constant, s)
			}
		}
	}
	for _, row := range c.Rows {
		list := row.Settings.List()
		constant = slices.DeleteFunc(constant, func(s Setting) bool {
			return has[ofTransport{row.Settings.Transport, s.Name}] && !slices.Contains(list, s)
		})
	}
	return constant
}

func (c *Comparison) writeRows(w io.Writer, constant []Setting) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "settings\tfigure\tA\tB\tchange\tn\tp\tverdict")
	for _, row := range c.Rows {
		own := slices.DeleteFunc(row.Settings.List(), func(s Setting) bool { return slices.Contains(constant, s) })
		change := "-"
		if percent, ok := row.Change(); ok {
			change = fmt.Sprintf("%+.1f %%", percent)
		}
		verdict := string(row.Verdict)
		if row.Verdict == TooFewRounds {
			verdict += fmt.Sprintf(": needs %d", enoughRounds)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d+%d\t%.3f\t%s\n", joinSettings(own), row.Metric,
			row.A.format(row.Metric), row.B.format(row.Metric),
			change, row.A.Rounds, row.B.Rounds, row.P, verdict)
	}
	_ = table.Flush() // into memory
}

func (e Estimate) format(m Metric) string {
	return fmt.Sprintf("%s (%s to %s)", m.Format(e.Median), m.Format(e.Low), m.Format(e.High))
}
