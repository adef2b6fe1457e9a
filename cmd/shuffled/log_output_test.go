package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesOfTheLogAreFitForATerminal(t *testing.T) {
	const name = "a\x1b[2J\nb\u009b2J\u202e\U000e0001"
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		slog.New(newLogHandler(&out, format, slog.LevelInfo)).With("client", name).Info(name, "name", name, name, 1)
		require.NotRegexp(t, `[^\pL\pM\pN\pP\pS\p{Zs}]`, string(bytes.TrimSuffix(out.Bytes(), []byte{'\n'})))
		if format == "json" {
			var line map[string]any
			require.NoError(t, json.Unmarshal(out.Bytes(), &line))
			require.Equal(t, name, line["name"], "programs get what it is")
		}
	}
}
