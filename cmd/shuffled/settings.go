package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"shuffled/internal/cli"
)

// envPrefix starts the name of every environment variable of this program.
const envPrefix = "SHUFFLED_"

// A setting is a value that a command takes from its command line, else from
// the environment, else from its default.
type setting struct {
	name  string // of the flag, without its dashes
	short string // its short form, if it has one
	group string // under which help lists it
	arg   string // what help puts for the value; "" is a flag without one
	help  string
	// defaultHelp is what help says of the default; the value's text if empty.
	defaultHelp string
	// flagOnly settings have no environment variable.
	flagOnly bool
	value    value
	source   string
}

// A value is what a setting holds. Set reads a text or says what it wants
// instead; String writes what Set reads.
type value interface {
	Set(text string) error
	String() string
}

func (s *setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// Settings are what a command takes.
type settings []*setting

// addTo adds the settings to the flags of a command.
func (list settings) addTo(flags *pflag.FlagSet) {
	for _, s := range list {
		f := flags.VarPF(flagValue{s}, s.name, s.short, s.describe())
		if s.arg == "" {
			f.NoOptDefVal = "true"
		}
	}
}

// flagValue is a setting as a flag.
type flagValue struct{ s *setting }

func (v flagValue) String() string        { return v.s.value.String() }
func (v flagValue) Set(text string) error { return v.s.value.Set(text) }
func (v flagValue) Type() string          { return v.s.arg }

// load says where each setting is from once its flags are read, and reads the
// environment for those that the command line leaves open.
func (list settings) load(flags *pflag.FlagSet, environ []string) error {
	for _, s := range list {
		s.source = "default"
		if flags.Changed(s.name) {
			s.source = "flag --" + s.name
		}
	}
	return list.readEnv(environ)
}

// readEnv reads the environment for settings that the command line leaves open.
func (list settings) readEnv(environ []string) error {
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || isServiceLink(name, text) {
			continue
		}
		if !slices.Contains(knownEnv(), name) {
			return cli.Usagef("unknown environment variable %s%s", name, cli.DidYouMean(name, knownEnv(), ""))
		}
		i := slices.IndexFunc(list, func(s *setting) bool { return !s.flagOnly && s.env() == name })
		if i < 0 || list[i].source != "default" {
			continue // of another command, or the flag goes first
		}
		if err := list[i].value.Set(text); err != nil {
			return cli.Usagef("invalid value %q for environment variable %s: %v", text, name, err)
		}
		list[i].source = "environment " + name
	}
	return nil
}

// knownEnv lists the variables of all commands: the environment of a daemon's
// container is that of a shell in it too.
func knownEnv() []string {
	var names []string
	for _, s := range newServeOptions().settings() {
		if !s.flagOnly {
			names = append(names, s.env())
		}
	}
	return names
}

// isServiceLink reports whether Kubernetes puts such a variable into each
// container of a namespace that has a service whose name begins with
// "shuffled".
func isServiceLink(name, text string) bool {
	if strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") {
		return true
	}
	_, port, found := strings.Cut(name, "_PORT")
	if !found {
		return false
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(port, "_"), "_") // of _PORT_9464_TCP_ADDR
	return port == "" && strings.Contains(text, "://") || isNumber(number)
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// printConfig writes each setting with its value and where that came from.
func (list settings) printConfig(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tSOURCE")
	for _, s := range list {
		if !s.flagOnly {
			fmt.Fprintf(table, "%s\t%s\t%s\n", s.name, orNone(s.value.String()), s.source)
		}
	}
	return table.Flush()
}

// printHelp writes the settings by group, in their order.
func (list settings) printHelp(w io.Writer) {
	group := ""
	for _, s := range list {
		if s.group != group {
			group = s.group
			fmt.Fprintf(w, "\n%s:\n", group)
		}
		dashed := "--" + s.name
		if s.short != "" {
			dashed = "-" + s.short + ", " + dashed
		}
		fmt.Fprintf(w, "  %s\n", strings.TrimSpace(dashed+" "+s.arg))
		for _, line := range wrap(s.describe(), 72) {
			fmt.Fprintf(w, "        %s\n", line)
		}
	}
}

// describe is what help says of a setting.
func (s *setting) describe() string {
	text := s.help
	if s.arg != "" {
		text += " Default: " + s.describeDefault() + "."
	}
	if !s.flagOnly {
		text += " [" + s.env() + "]"
	}
	return text
}

func (s *setting) describeDefault() string {
	if s.defaultHelp != "" {
		return s.defaultHelp
	}
	return orNone(s.value.String())
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// wrap breaks a text between words into lines of at most width characters, if
// its words allow it.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// socketSetting is --socket, which all commands share with the workers.
func socketSetting(v *string, help string) *setting {
	return &setting{name: "socket", group: "Socket", arg: "PATH", help: help, value: (*socketPath)(v)}
}
