package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

// measured returns results of the shuffle with two sizes, twice and three times as
// fast as a Unix socket, and of the socket.
func measured() *results.File {
	f := results.New("throughput")
	for size, rate := range map[int]float64{16: 20e6, 100: 30e6} {
		f.Add(results.Settings{Transport: "shm", RecordSize: size}, results.Round{results.RecordsPerS: rate,
			results.P99: 4000})
		f.Add(results.Settings{Transport: "unix", RecordSize: size}, results.Round{results.RecordsPerS: 10e6})
	}
	f.Summarise()
	return f
}

func TestAssertionsHoldOrFailWithTheValueAndTheLimit(t *testing.T) {
	for _, row := range []struct {
		text  string
		holds bool
		want  []string
	}{
		{"ratio_to_unix>=2", true, []string{
			"ok: transport=shm,record_size=16: ratio_to_unix is 2, want >= 2",
			"ok: transport=shm,record_size=100: ratio_to_unix is 3, want >= 2"}},
		{"ratio_to_unix > 2", false, []string{
			"failed: transport=shm,record_size=16: ratio_to_unix is 2, want > 2",
			"ok: transport=shm,record_size=100: ratio_to_unix is 3, want > 2"}},
		{"record_size=100: ratio_to_unix==3", true,
			[]string{"ok: transport=shm,record_size=100: ratio_to_unix is 3, want == 3"}},
		{"transport=unix, record_size=16: records_per_s<=1e7", true,
			[]string{"ok: transport=unix,record_size=16: records_per_s is 1e+07, want <= 1e+07"}},
		{"record_size=16:p99_ns<4us", false,
			[]string{"failed: transport=shm,record_size=16: p99_ns is 4000, want < 4000"}},
		{"record_size=16:p99_ns<0.004 ms", false, []string{"p99_ns is 4000, want < 4000"}},
		{"record_size=16:p99_ns<1s", true, []string{"want < 1e+09"}},
		{"transport=unix,record_size=16:p99_ns<1s", false,
			[]string{"failed: transport=unix,record_size=16: p99_ns is not measured"}},
		{"transport=unix,record_size=16:p99_ns>=0", false, []string{"not measured"}},
		{"record_size=16:ratio_to_ceiling>=0", false, []string{"ratio_to_ceiling is not measured"}},
		{"record_size=8000: ratio_to_unix>=0", false,
			[]string{"failed: no measurement has transport=shm,record_size=8000"}},
		{"transport=unix: ratio_to_unix<1.5", true, []string{"ok: transport=unix,record_size=16",
			"ok: transport=unix,record_size=100"}},
	} {
		a, err := parseAssertion(row.text)
		require.NoError(t, err, row.text)
		var out strings.Builder
		require.Equal(t, row.holds, a.check(measured(), &out), "%s: %s", row.text, out.String())
		require.Equal(t, len(row.want), strings.Count(out.String(), "\n"), "%s: %s", row.text, out.String())
		for _, want := range row.want {
			require.Contains(t, out.String(), want)
		}
	}
}

func TestAssertionWithoutTransportIsOnAllWhereTheShuffleIsNot(t *testing.T) {
	f := results.New("throughput")
	f.Add(results.Settings{Transport: "tcp"}, results.Round{results.RecordsPerS: 1})
	f.Add(results.Settings{Transport: "pipe"}, results.Round{results.RecordsPerS: 2})
	f.Summarise()
	a, err := parseAssertion("records_per_s<2")
	require.NoError(t, err)
	var out strings.Builder
	require.False(t, a.check(f, &out))
	require.Contains(t, out.String(), "ok: transport=tcp: ")
	require.Contains(t, out.String(), "failed: transport=pipe: ")
}

func TestBadAssertionsSayWhatWouldBeRight(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", "no comparison: want a condition such as"},
		{"ratio_to_unix", "no comparison"},
		{"ratio_to_unix=2", `unknown comparison at "=2": want one of >= <= == > <`},
		{"ratio_to_unix!=2", "unknown comparison"},
		{"ratio_to_unx>=2", `unknown figure "ratio_to_unx": did you mean ratio_to_unix?`},
		{"p99<200us", `unknown figure "p99": did you mean p99_ns?`},
		{"p98_ns<200us", "did you mean p90_ns?"},
		{"speed>2", `unknown figure "speed": want one of `},
		{"ratio_to_unix>=two", `limit "two": want a number, ratio_to_unix has no units`},
		{"records_per_s>=1us", "records_per_s has no units"},
		{"p99_ns<2min", "in ns or with one of the units ns, us, ms, s"},
		{"p99_ns<NaN", `limit "NaN": want a number`},
		{"p99_ns<Inf", "want a number"},
		{"p99_ns<", `limit "": want a number`},
		{"shm: ratio_to_unix>=2", `"shm" before the colon: want setting=value`},
		{"transprt=shm: ratio_to_unix>=2", `unknown setting "transprt": did you mean transport?`},
		{"record_size=big: ratio_to_unix>=2", `record_size is "big", want a number from 1`},
	} {
		_, err := parseAssertion(row.text)
		require.ErrorContains(t, err, row.want, row.text)
	}
}
