package results

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettingsAreSetAndListedByTheirNamesInFiles(t *testing.T) {
	var s Settings
	for _, row := range []struct{ name, text string }{{"transport", "shm"}, {"record_size", "100"},
		{"rate_per_s", "1e6"}} {
		require.NoError(t, s.Set(row.name, row.text))
	}
	require.Equal(t, Settings{Transport: "shm", RecordSize: 100, RatePerS: 1e6}, s)
	require.Equal(t, []Setting{{"transport", "shm"}, {"record_size", "100"}, {"rate_per_s", "1000000"}}, s.List())
	require.Equal(t, "transport=shm,record_size=100,rate_per_s=1000000", s.String())
}

func TestEverySettingCanBeSet(t *testing.T) {
	for _, name := range SettingNames() {
		var s Settings
		if s.Set(name, "1") != nil {
			require.NoError(t, s.Set(name, "true"), name)
		}
		require.Len(t, s.List(), 1, name)
		require.Equal(t, name, s.List()[0].Name)
	}
}

func TestSettingsRefuseValuesThatNoMeasurementHas(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"transport", "", "transport has no value"},
		{"record_size", "big", `record_size is "big", want a number from 1`},
		{"record_size", "0", "want a number from 1"},
		{"rate_per_s", "NaN", "want a number above 0"},
		{"flavour", "1", `unknown setting "flavour", want one of transport, record_size`},
	} {
		var s Settings
		require.ErrorContains(t, s.Set(row.name, row.text), row.want)
	}
}

func TestSettingsMatchThoseThatHaveAllOfThem(t *testing.T) {
	s := Settings{Transport: "shm", RecordSize: 100, Producers: 4}
	for _, row := range []struct {
		want Settings
		ok   bool
	}{
		{Settings{}, true},
		{Settings{Transport: "shm"}, true},
		{Settings{Transport: "shm", Producers: 4}, true},
		{Settings{Transport: "shm", Producers: 1}, false},
		{Settings{Transport: "shm", Consumers: 4}, false},
	} {
		require.Equal(t, row.ok, row.want.Match(s), "%v", row.want)
	}
}
