package throttle

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLinesBeyondTheFirstFewAreCounted(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out,
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}}))
	now := time.Unix(0, 0)
	l := New(log, func() time.Time { return now })
	lines := func() []string {
		defer out.Reset()
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	for i := range 1000 {
		l.Warn(log.With("client", i), "garbage")
	}
	l.Warn(log, "another kind")
	l.Flush(false)
	require.Equal(t, []string{
		"msg=garbage client=0", "msg=garbage client=1", "msg=garbage client=2", "msg=garbage client=3",
		"msg=garbage client=4", `msg="another kind"`,
	}, lines())

	now = now.Add(every)
	l.Warn(log, "garbage")
	require.Equal(t, []string{"msg=garbage more_like_this=995", "msg=garbage"}, lines())
	for range 10 {
		l.Warn(log, "garbage")
	}
	lines()
	now = now.Add(every)
	l.Flush(false)
	require.Equal(t, []string{"msg=garbage more_like_this=6"}, lines())
	l.Flush(true)
	require.Equal(t, []string{""}, lines())
	for range 7 {
		l.Warn(log, "garbage")
	}
	lines()
	l.Flush(true)
	require.Equal(t, []string{"msg=garbage more_like_this=2"}, lines())
}
