package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"shuffled/bench/results"
	"shuffled/internal/units"
)

// A setting is one of those that tell measurements apart, as it is shown. It is
// empty where a measurement does not have it.
type setting struct {
	title string
	text  func(results.Settings) string
}

// settings are all of them in the order of table columns.
var settings = append([]setting{
	{"record", func(s results.Settings) string { return number(s.RecordSize, " B") }},
	{"workers", workers},
	{"subpartitions", func(s results.Settings) string { return number(s.Subpartitions, "") }},
	{"partitions", func(s results.Settings) string { return number(s.Partitions, "") }},
	{"path", func(s results.Settings) string { return s.Path }},
	{"waiting", func(s results.Settings) string { return s.Waiting }},
	{"sent a second", func(s results.Settings) string { return rate(s.RatePerS) }},
	{"transport", func(s results.Settings) string { return s.Transport }},
}, otherSettings()...)

// otherSettings are shown as files have them.
func otherSettings() (other []setting) {
	shown := []string{"record_size", "producers", "consumers", "subpartitions", "partitions", "path", "waiting",
		"rate_per_s", "transport"}
	for _, name := range results.SettingNames() {
		if slices.Contains(shown, name) {
			continue
		}
		other = append(other, setting{strings.ReplaceAll(name, "_", " "), func(s results.Settings) string {
			for _, setting := range s.List() {
				if setting.Name == name {
					return setting.Value
				}
			}
			return ""
		}})
	}
	return other
}

func number(n int, after string) string {
	if n == 0 {
		return ""
	}
	return units.GroupDigits(int64(n)) + after
}

func rate(perS float64) string {
	if perS == 0 {
		return ""
	}
	return whole(perS) + "/s"
}

// workers are producers and consumers: "4 → 4".
func workers(s results.Settings) string {
	if s.Producers == 0 && s.Consumers == 0 {
		return ""
	}
	return fmt.Sprintf("%d → %d", s.Producers, s.Consumers)
}

// varying returns the settings in which some measurements differ. What some
// transports do not have at all is no difference.
func varying(all []results.Settings) []setting {
	return only(func(s setting) bool {
		first, having := "", make(map[string]bool)
		for _, of := range all {
			text := s.text(of)
			if had, ok := having[of.Transport]; ok && had != (text != "") {
				return true
			}
			having[of.Transport] = text != ""
			first = cmp.Or(first, text)
			if text != "" && text != first {
				return true
			}
		}
		return false
	})
}

// only returns some of the settings.
func only(which func(setting) bool) (some []setting) {
	for _, s := range settings {
		if which(s) {
			some = append(some, s)
		}
	}
	return some
}

func has(list []setting, s setting) bool {
	return slices.ContainsFunc(list, func(other setting) bool { return other.title == s.title })
}

// telling returns the settings to name measurements by: some always, and those in
// which they differ.
func telling(all []*results.Measurement, always ...string) []setting {
	apart := varying(settingsOf(all))
	return only(func(s setting) bool { return slices.Contains(always, s.title) || has(apart, s) })
}

func settingsOf(all []*results.Measurement) (of []results.Settings) {
	for _, m := range all {
		of = append(of, m.Settings)
	}
	return of
}

// label names a series by its transport and what tells it from others.
func label(s results.Settings, apart []setting) string {
	return join(s.Transport, words(s, apart))
}

// join lists what there is.
func join(first string, others []string) string {
	all := append([]string{first}, others...)
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), ", ")
}

// words says what some settings are, but for the transport.
func words(s results.Settings, of []setting) (parts []string) {
	for _, setting := range of {
		if text := setting.text(s); setting.title != "transport" && text != "" {
			parts = append(parts, qualified(setting.title, text))
		}
	}
	return parts
}

// qualified says what a setting is where its text alone does not.
func qualified(title, text string) string {
	switch title {
	case "record":
		return text + " records"
	case "subpartitions", "partitions", "workers":
		return text + " " + title
	case "path", "waiting", "sent a second", "via", "distribution", "partition type":
		return text
	}
	return title + " " + text
}
