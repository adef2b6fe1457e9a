package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page that an operator reads names everything there is, and nothing else.
func TestOperationsPageNamesWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	page := string(text)
	named := func(pattern string) (names []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(page, -1) {
			names = append(names, match[1])
		}
		return names
	}

	options := newServeOptions()
	list := options.settings()
	for _, s := range list {
		require.Contains(t, page, "`--"+s.name+"`", "a flag")
	}
	for _, name := range named("`--([a-z][a-z-]+)`") {
		require.True(t, slices.ContainsFunc(list, func(s *setting) bool { return s.name == name }), "flag --%s", name)
	}
	for _, c := range newProgram(process{}).Commands() {
		require.Contains(t, page, "`"+c.Name()+"`", "a command")
	}
	for _, g := range probeDegradations(options, fewDescriptors) {
		require.Contains(t, page, "`"+g.reason+"`", "a degradation")
	}
	for _, reason := range []string{reasonStarting, reasonDraining, reasonSocketRemoved, reasonLockRemoved} {
		require.Contains(t, page, "`"+reason+"`", "a reason of /readyz")
	}
	for _, code := range []int{exitOK, exitError, exitUsage, exitDropped} {
		require.Contains(t, page, "\n| "+strconv.Itoa(code)+" | ", "an exit code")
	}

	d := start(t)
	var metrics []string
	for name := range d.Metrics() {
		name, _, _ = strings.Cut(name, "{")
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		if strings.HasPrefix(name, "shuffled_") {
			metrics = append(metrics, name)
			require.Contains(t, page, "`"+name+"`", "a metric")
		}
	}
	for _, name := range named("`(shuffled_[a-z_]+)[`{]") {
		require.True(t, name == "shuffled_memory_limit_bytes" || slices.Contains(metrics, name), "metric %s", name)
	}
}
