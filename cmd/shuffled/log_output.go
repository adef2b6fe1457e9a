package main

import (
	"bytes"
	"io"
	"log/slog"
)

// newLogger returns the logger of the settings --log-format and --log-level,
// whose words were checked. It never waits for whoever reads the log.
func newLogger(queue *logQueue, format, level string) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level))
	if l <= slog.LevelWarn {
		queue.notice = func(dropped uint64) []byte {
			var line bytes.Buffer
			slog.New(newLogHandler(&line, format, l)).Warn("log lines were dropped, nobody read them in time", "lines",
				dropped)
			return line.Bytes()
		}
	}
	return slog.New(newLogHandler(queue, format, l))
}

func newLogHandler(w io.Writer, format string, level slog.Level) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.NewJSONHandler(graphicJSON{w}, options)
	}
	return slog.NewTextHandler(w, options)
}

// graphicJSON makes lines of JSON fit for a terminal too: handlers escape control
// characters of ASCII only, and lines hold what users chose.
type graphicJSON struct{ w io.Writer }

func (g graphicJSON) Write(line []byte) (int, error) {
	if _, err := g.w.Write(escapeJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}
