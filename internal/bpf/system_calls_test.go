package bpf

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestEverySystemCallIsListedOnce(t *testing.T) {
	numbers, names := make(map[int]string), make(map[string]bool)
	for _, calls := range [][]systemCall{systemCalls, systemCallsOfArchitecture} {
		for _, call := range calls {
			require.Empty(t, numbers[call.number], "%s has the number of another", call.name)
			require.False(t, names[call.name], "%s twice", call.name)
			require.Less(t, call.number, SyscallNumbers-1, call.name)
			numbers[call.number], names[call.name] = call.name, true
		}
	}
}

func TestSystemCallsHaveNames(t *testing.T) {
	require.Equal(t, "read", SyscallName(unix.SYS_READ))
	require.Equal(t, "futex_waitv", SyscallName(unix.SYS_FUTEX_WAITV))
	require.Equal(t, "syscall 511", SyscallName(511))
	require.Equal(t, "syscall -1", SyscallName(-1))
}

func TestSystemCallsThatAreNotListedAreOther(t *testing.T) {
	kinds, reasons := callTables()
	require.EqualValues(t, plain, kinds[unix.SYS_MQ_TIMEDRECEIVE])
	require.EqualValues(t, OffOther, reasons[unix.SYS_MQ_TIMEDRECEIVE])
	require.EqualValues(t, reads, kinds[unix.SYS_RECVFROM])
	require.EqualValues(t, OffSocket, reasons[unix.SYS_RECVFROM])
}

func TestCallsOfANumber(t *testing.T) {
	var c SyscallCounts
	c[unix.SYS_WRITE], c[511] = 3, 4
	require.EqualValues(t, 3, c.Of(unix.SYS_WRITE))
	require.EqualValues(t, 7, c.Total())
	require.Zero(t, c.Of(-1))
	require.Zero(t, c.Of(512))
}
