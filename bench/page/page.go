package page

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"shuffled/bench/results"
)

// A Source is a results file, as [results.Read] returns it, and the name it is
// shown by.
type Source struct {
	Name string
	File *results.File
}

//go:embed page.html
var pageText string

//go:embed page.css
var styleSheet string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// A document is what the template writes.
type document struct {
	Style    template.CSS
	Subjects string // what was measured
	Dates    string // may be empty
	Partial  []Source
	Summary  []summary
	Machines []*machine
	Sections []section
}

// Write writes a page of some files, of which there must be one or more, in their
// order. It only reads them.
func Write(w io.Writer, sources []Source) error {
	if len(sources) == 0 {
		return errors.New("write page: there are no results files")
	}
	d := document{Style: template.CSS(styleSheet), Subjects: subjects(sources), Dates: dates(sources),
		Machines: machines(sources)}
	for _, s := range sources {
		if s.File.Partial != "" {
			d.Partial = append(d.Partial, s)
		}
	}
	for _, m := range d.Machines {
		heading, suffix := "", ""
		if m.Name != "" {
			heading, suffix = "Machine "+m.Name, ", machine "+m.Name
		}
		d.Summary = append(d.Summary, summarise(m.Sources, heading))
		d.Sections = append(d.Sections, sections(m.Sources, suffix)...)
	}
	for i := range d.Sections {
		d.Sections[i].ID = fmt.Sprintf("section-%d", i+1)
	}
	if err := pageTemplate.Execute(w, d); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// subjects lists what was measured: "Throughput, latency".
func subjects(sources []Source) string {
	var titles []string
	for i, k := range orderedKinds(sources) {
		if title := k.title; i == 0 {
			titles = append(titles, title)
		} else {
			titles = append(titles, strings.ToLower(title[:1])+title[1:])
		}
	}
	return strings.Join(titles, ", ")
}

// dates says when the files began, if they say.
func dates(sources []Source) string {
	var days []string
	for _, s := range sources {
		if !s.File.Started.IsZero() {
			days = append(days, s.File.Started.UTC().Format(time.DateOnly))
		}
	}
	days = slices.Compact(slices.Sorted(slices.Values(days)))
	switch len(days) {
	case 0:
		return ""
	case 1:
		return days[0]
	}
	return days[0] + " to " + days[len(days)-1]
}
