package profile

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

func TestVerdictsCompareMediansWithLimits(t *testing.T) {
	m := &results.Measurement{Medians: results.Round{results.CopiedPerByte: 0.5, results.SystemCallsPerMiB: 0.25}}
	var texts []string
	var failed []bool
	for _, v := range (Limits{CopiedPerByte: 0.001, SystemCallsPerMiB: 0.25, WakeupsPerMiB: 3}).Check(m) {
		texts, failed = append(texts, v.String()), append(failed, v.Failed())
	}
	require.Equal(t, []string{
		"bytes copied by the kernel per byte of records: 0.500, more than 0.00100: FAIL",
		"system calls per MiB of records: 0.250, at most 0.250: pass",
		"wake-ups per MiB of records: not measured",
	}, texts)
	require.Equal(t, []bool{true, false, false}, failed)
	unlimited := (Limits{CopiedPerByte: math.Inf(1)}).Check(m)[0]
	require.Equal(t, "bytes copied by the kernel per byte of records: 0.500", unlimited.String())
	require.False(t, unlimited.Failed())
}

func TestRolesAreSummedUpWithTheirSystemCalls(t *testing.T) {
	requireText(t, "roles.txt", ByRole(socketFile(t)))
}
