package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFaultHappensInEveryRoundOrInOne(t *testing.T) {
	for _, row := range []struct {
		fault Fault
		round int
		want  Fault
	}{
		{NoFault, 1, NoFault},
		{FlipByte, 1, FlipByte},
		{FlipByte, 12, FlipByte},
		{FlipByte.InRound(2), 1, NoFault},
		{FlipByte.InRound(2), 2, FlipByte},
		{FlipByte.InRound(2), 12, NoFault},
	} {
		require.Equal(t, row.want == NoFault, row.fault.in(row.round).lasting(time.Second) == time.Second)
		require.Equal(t, row.want, row.fault.in(row.round), "%q in round %d", row.fault, row.round)
	}
}
