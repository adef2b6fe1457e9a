package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestBadSettingsExitWithTwoAndSayWhatIsWanted(t *testing.T) {
	long := "/" + strings.Repeat("d", 120) + "/shuffled.sock"
	for _, row := range []struct {
		name    string
		environ []string
		args    []string
		want    []string // each in the message
	}{
		{"unknown flag", nil, []string{"--memroy", "1GiB"},
			[]string{`unknown flag "--memroy"`, "did you mean --memory?"}},
		{"unknown flag and value", nil, []string{"--memroy=1GiB"},
			[]string{`unknown flag "--memroy"`, "did you mean --memory?"}},
		{"flag behind one dash", nil, []string{"-memory", "1GiB"}, []string{"use --memory"}},
		{"abbreviated flag", nil, []string{"--mem", "1GiB"},
			[]string{`unknown flag "--mem":`, "did you mean --memory?"}},
		{"half-right flag", nil, []string{"--metrics-port", "9464"}, []string{"did you mean --metrics-address?"}},
		{"flag like nothing", nil, []string{"--qqqqqqqqqq"}, []string{`unknown flag "--qqqqqqqqqq": want one of `}},
		{"flag without value", nil, []string{"--memory"}, []string{"flag needs an argument: --memory"}},
		{"stray argument", nil, []string{"now"}, []string{`unexpected argument "now"`}},
		{"forgotten dash", nil, []string{"memory=1GiB"}, []string{"did you mean --memory=1GiB?"}},
		{"after two dashes", nil, []string{"--", "--memory"}, []string{`unexpected argument "--memory"`}},

		{"memory no number", nil, []string{"--memory", "lots"},
			[]string{`invalid argument "lots" for "--memory" flag`}},
		{"memory decimal unit", nil, []string{"--memory", "4GB"}, []string{"did you mean 4GiB?"}},
		{"memory too small", nil, []string{"--memory", "100"}, []string{"got 100 bytes, want from 4KiB"}},
		{"memory of one segment", nil, []string{"--memory", "32KiB"}, []string{"holds 1 segments", "want at least 2"}},
		{"memory of too many segments", nil, []string{"--memory", "16384TiB", "--segment-size", "4KiB"},
			[]string{"want at most", "use larger segments"}},
		{"segment size no power of two", nil, []string{"--segment-size", "5000"},
			[]string{"got 5000 bytes, want a power of two from 4KiB to 64MiB"}},
		{"segment size too small", nil, []string{"--segment-size", "2KiB"},
			[]string{"want a power of two from 4KiB to 64MiB"}},
		{"segment size too large", nil, []string{"--segment-size", "128MiB"},
			[]string{"want a power of two from 4KiB to 64MiB"}},
		{"isolation", nil, []string{"--isolation", "stict"},
			[]string{"want one of default, strict: did you mean strict?"}},
		{"huge pages", nil, []string{"--huge-pages", "always"}, []string{"want one of auto, never"}},
		{"log format", nil, []string{"--log-format", "xml"}, []string{"want one of text, json"}},
		{"log level", nil, []string{"--log-level", "warning"},
			[]string{"want one of debug, info, warn, error: did you mean warn?"}},
		{"uids", nil, []string{"--allowed-uids", "1000,bob"}, []string{`"bob" is not a numeric id`, "1000,1001"}},
		{"uid -1", nil, []string{"--allowed-uids", "4294967295"}, []string{"from 0 to 4294967294"}},
		{"gids", nil, []string{"--allowed-gids", "1000,"}, []string{`"" is not a numeric id`}},
		{"group", nil, []string{"--socket-group", "no such group"}, []string{"no group has that name"}},
		{"limit zero", nil, []string{"--max-partitions", "0"}, []string{"want a whole number from 1 to"}},
		{"limit no number", nil, []string{"--max-inputs-per-gate", "many"},
			[]string{"want a whole number from 1 to 1048576"}},
		{"limit above all", nil, []string{"--max-connections", "99999999999999999999"},
			[]string{"want a whole number from 1 to"}},
		{"retention", nil, []string{"--retention", "0s"}, []string{"want a time with its unit from 1s to 8760h"}},
		{"admission timeout", nil, []string{"--admission-timeout", "2h"},
			[]string{"want a time with its unit from 0s to 1h"}},
		{"time without unit", nil, []string{"--drain-timeout", "30"},
			[]string{"want a time with its unit from 0s to 24h, such as 1m30s"}},
		{"address", nil, []string{"--metrics-address", "9464"}, []string{"want HOST:PORT", "127.0.0.1:9464"}},
		{"port", nil, []string{"--metrics-address", ":99999"}, []string{"port from 0 to 65535"}},
		{"boolean", nil, []string{"--print-config=perhaps"}, []string{"want true or false"}},
		{"socket too long", nil, []string{"--socket", long}, []string{"got 135 bytes, limit 107"}},
		{"socket empty", nil, []string{"--socket", ""}, []string{"socket path is empty"}},
		{"socket abstract", nil, []string{"--socket", "@shuffled"}, []string{"abstract name"}},

		{"unknown variable", []string{"SHUFFLED_MEMROY=1GiB"}, nil,
			[]string{"unknown environment variable SHUFFLED_MEMROY", "did you mean SHUFFLED_MEMORY?"}},
		{"variable of a flag without one", []string{"SHUFFLED_PRINT_CONFIG=1"}, nil,
			[]string{"unknown environment variable SHUFFLED_PRINT_CONFIG"}},
		{"bad variable", []string{"SHUFFLED_SEGMENT_SIZE=33000"}, nil,
			[]string{`invalid value "33000" for environment variable SHUFFLED_SEGMENT_SIZE`, "power of two"}},
		{"empty variable", []string{"SHUFFLED_MEMORY="}, nil,
			[]string{`invalid value "" for environment variable SHUFFLED_MEMORY`}},
		{"variable like a port", []string{"SHUFFLED_PORT=9464"}, nil,
			[]string{"unknown environment variable SHUFFLED_PORT"}},
		{"variable that ends like a port", []string{"SHUFFLED_PORT_=9464"}, nil,
			[]string{"unknown environment variable SHUFFLED_PORT_"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, stdout, stderr := runProgram(row.environ, append([]string{"serve"}, row.args...)...)
			require.Equal(t, exitUsage, code, stderr)
			require.Empty(t, stdout)
			for _, want := range row.want {
				require.Contains(t, stderr, want)
			}
		})
	}
}

// printedConfig returns setting, value and source of what --print-config writes.
func printedConfig(t *testing.T, environ []string, args ...string) map[string][2]string {
	t.Helper()
	code, stdout, stderr := runProgram(environ, append([]string{"serve", "--print-config"}, args...)...)
	require.Equal(t, exitOK, code, stderr)
	printed := make(map[string][2]string)
	for line := range strings.Lines(stdout) {
		fields := strings.Fields(line)
		require.GreaterOrEqual(t, len(fields), 3, line)
		printed[fields[0]] = [2]string{fields[1], strings.Join(fields[2:], " ")}
	}
	return printed
}

func TestFlagsGoBeforeTheEnvironmentAndThatBeforeDefaults(t *testing.T) {
	environ := []string{"SHUFFLED_MEMORY=1.5GiB", "SHUFFLED_SEGMENT_SIZE=64KiB", "SHUFFLED_METRICS_ADDRESS=",
		"SHUFFLED_ALLOWED_UIDS=1,2", "HOME=/"}
	printed := printedConfig(t, environ, "--memory=512MiB", "--memory", "64MiB", "--drain-timeout", "90s")
	require.Equal(t, [2]string{"64MiB", "flag --memory"}, printed["memory"])
	require.Equal(t, [2]string{"64KiB", "environment SHUFFLED_SEGMENT_SIZE"}, printed["segment-size"])
	require.Equal(t, [2]string{"none", "environment SHUFFLED_METRICS_ADDRESS"}, printed["metrics-address"])
	require.Equal(t, [2]string{"1,2", "environment SHUFFLED_ALLOWED_UIDS"}, printed["allowed-uids"])
	require.Equal(t, [2]string{"1m30s", "flag --drain-timeout"}, printed["drain-timeout"])
	require.Equal(t, [2]string{defaultSocket, "default"}, printed["socket"])
	require.Equal(t, [2]string{"10m", "default"}, printed["retention"])
	require.Equal(t, [2]string{"5s", "default"}, printed["admission-timeout"])
}

func TestEverySettingIsPrintedAndHelped(t *testing.T) {
	printed := printedConfig(t, nil)
	_, help, _ := runProgram(nil, "serve", "--help")
	for _, s := range newServeOptions().settings() {
		require.Contains(t, help, "  --"+s.name)
		if s.flagOnly {
			continue
		}
		require.Contains(t, help, "["+s.env()+"]")
		require.Contains(t, printed, s.name)
		require.Equal(t, "default", printed[s.name][1])
		require.Equal(t, orNone(s.value.String()), printed[s.name][0])
	}
}

func TestEverySettingReadsWhatItPrints(t *testing.T) {
	for _, s := range newServeOptions().settings() {
		if text := s.value.String(); text != "" {
			require.NoError(t, s.value.Set(text), s.name)
			require.Equal(t, text, s.value.String(), s.name)
		}
	}
}

func TestVariablesOfOtherCommandsAndOfKubernetesAreLeftAlone(t *testing.T) {
	environ := []string{
		"SHUFFLED_SERVICE_HOST=10.0.0.1", "SHUFFLED_SERVICE_PORT=9464", "SHUFFLED_SERVICE_PORT_METRICS=9464",
		"SHUFFLED_PORT=tcp://10.0.0.1:9464",
		"SHUFFLED_PORT_9464_TCP=tcp://10.0.0.1:9464", "SHUFFLED_PORT_9464_TCP_ADDR=10.0.0.1",
		"SHUFFLED_METRICS_PORT_80_TCP_PROTO=tcp",
	}
	printed := printedConfig(t, environ)
	require.Equal(t, "default", printed["memory"][1])

	o := newOperatorOptions()
	err := o.settings().load(pflag.NewFlagSet("", pflag.ContinueOnError),
		[]string{"SHUFFLED_MEMORY=8GiB", "SHUFFLED_SOCKET=/s"})
	require.NoError(t, err)
	require.Equal(t, "/s", o.socket)
}
