package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
	"shuffled/writer"
)

func TestListsOfSettings(t *testing.T) {
	types, err := ParsePartitionTypes("pipelined-bounded, pipelined")
	require.NoError(t, err)
	require.Equal(t, []shuffle.ResultPartitionType{shuffle.PipelinedBounded, shuffle.Pipelined}, types)
	timeouts, err := ParseFlushTimeouts("100ms,0,-1,2s")
	require.NoError(t, err)
	require.Equal(t, []time.Duration{100 * time.Millisecond, writer.FlushAlways, writer.FlushNever, 2 * time.Second},
		timeouts)
	vias, err := ParseVias("reserve,emit")
	require.NoError(t, err)
	require.Equal(t, []Via{Reserve, Emit}, vias)
	distributions, err := ParseDistributions("round-robin,keyed")
	require.NoError(t, err)
	require.Equal(t, []Distribution{RoundRobin, Keyed}, distributions)
}

func TestListsRefuseUnknownAndRepeatedValues(t *testing.T) {
	for _, row := range []struct {
		parse func(list string) error
		list  string
		want  string
	}{
		{errorOf(ParsePartitionTypes), "blocking",
			`partition type "blocking": want some of pipelined,pipelined-bounded`},
		{errorOf(ParsePartitionTypes), "", `partition type "": want some of`},
		{errorOf(ParsePartitionTypes), "pipelined,pipelined", `partition type "pipelined" is given twice`},
		{errorOf(ParseFlushTimeouts), "-2", `flush timeout "-2": want a duration such as 100ms, 0 for every record`},
		{errorOf(ParseFlushTimeouts), "100", `flush timeout "100": want a duration`},
		{errorOf(ParseFlushTimeouts), "-5ms", `flush timeout "-5ms": want a duration`},
		{errorOf(ParseFlushTimeouts), "0,0s", `flush timeout "0s" is given twice`},
		{errorOf(ParseVias), "emit,copy", `way "copy": want some of emit,reserve`},
		{errorOf(ParseDistributions), "random", `distribution "random": want some of keyed,round-robin`},
	} {
		require.ErrorContains(t, row.parse(row.list), row.want)
	}
}

func errorOf[T any](parse func(string) ([]T, error)) func(string) error {
	return func(list string) error {
		_, err := parse(list)
		return err
	}
}
