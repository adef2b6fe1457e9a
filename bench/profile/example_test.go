package profile_test

import (
	"fmt"

	"shuffled/bench/profile"
	"shuffled/bench/results"
)

func ExampleLimits_Check() {
	m := &results.Measurement{Medians: results.Round{results.CopiedPerByte: 2.01, results.SystemCallsPerMiB: 0.4}}
	for _, verdict := range (profile.Limits{CopiedPerByte: 0.001, SystemCallsPerMiB: 1}).Check(m) {
		fmt.Println(verdict)
	}
	// Output:
	// bytes copied by the kernel per byte of records: 2.01, more than 0.00100: FAIL
	// system calls per MiB of records: 0.400, at most 1.00: pass
	// wake-ups per MiB of records: not measured
}
