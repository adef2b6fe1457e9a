package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/daemontest"
	"shuffled/internal/units"
)

func TestStartSaysWhomItServesAndWhatItCanTake(t *testing.T) {
	d := daemontest.Start(t, daemontest.Options{
		Env: []string{asProgram, "TEST_NOFILE=512"},
		Args: []string{"--allowed-uids", "2001,2002", "--allowed-gids", "0", "--retention", "90s", "--drain-timeout",
			"5s", "--max-partitions", "1000"},
	})
	line := d.FindLog("shuffled starts")
	require.Contains(t, line["may_connect"], "root")
	require.Contains(t, line["may_connect"], "uid 2001, uid 2002, gid 0")
	require.Equal(t, "1m30s", line["retention"])
	require.Equal(t, "5s", line["drain_timeout"])
	require.Contains(t, line["restart"], "keeps nothing")
	require.NotEmpty(t, line["metrics_address"])
	most := float64((512 - reservedDescriptors) / 2)
	require.Equal(t, most, line["most_partitions"])
	require.Equal(t, most,
		d.WaitForLog("--max-partitions is out of reach: a partition takes two descriptors, raise RLIMIT_NOFILE (systemd: LimitNOFILE=)")["most_partitions"])
	require.Nil(t,
		d.FindLog("--memory leaves little for workers and everything else: lower it, unless they have memory of their own"))
	d.Signal(unix.SIGTERM)
	require.Zero(t, d.Wait())
}

func TestMemoryThatLeavesLittleIsWarnedOf(t *testing.T) {
	for _, row := range []struct {
		name        string
		budget      memoryBudget
		memory      int64
		whole, left int64
		little      bool
	}{
		{"23 of 23.5 GiB", memoryBudget{ram: 235 * units.GiB / 10}, 23 * units.GiB, 235 * units.GiB / 10, units.GiB / 2,
			true},
		{"more than there is without swap", memoryBudget{ram: 16 * units.GiB, machine: 32 * units.GiB}, 20 * units.GiB,
			16 * units.GiB, 0, true},
		{"a cgroup's", memoryBudget{ram: 16 * units.GiB, limit: 8 * units.GiB}, 75 * units.GiB / 10, 8 * units.GiB,
			units.GiB / 2, true},
		{"half", memoryBudget{ram: 16 * units.GiB}, 8 * units.GiB, 16 * units.GiB, 8 * units.GiB, false},
		{"an eighth", memoryBudget{ram: 16 * units.GiB}, 14 * units.GiB, 16 * units.GiB, 2 * units.GiB, false},
	} {
		whole, left, little := row.budget.leavesLittle(row.memory)
		require.Equal(t, row.little, little, row.name)
		require.Equal(t, row.whole, whole, row.name)
		require.Equal(t, row.left, left, row.name)
	}
	_, _, little := (&memoryBudget{}).leavesLittle(maxMemory)
	require.False(t, little, "nothing is known")
}

func TestSettingsThatMakeNoSenseTogetherAreRefusedByName(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--memory", "8MiB", "--floating-target", "9MiB"},
			"--floating-target 9MiB is more than --memory 8MiB"},
		{[]string{"--max-memory-per-uid", "32KiB"}, "--max-memory-per-uid 32KiB holds no partition"},
		{[]string{"--max-control-memory", "1"}, "--max-control-memory 1B holds no queues"},
		{[]string{"--max-partitions", "5", "--max-partitions-per-uid", "6"},
			"--max-partitions-per-uid 6 is more than --max-partitions 5"},
		{[]string{"--max-gates", "5", "--max-gates-per-uid", "6"}, "--max-gates-per-uid 6 is more than --max-gates 5"},
		{[]string{"--max-connections", "5", "--max-connections-per-uid", "6"},
			"--max-connections-per-uid 6 is more than --max-connections 5"},
	} {
		code, _, stderr := runProgram(nil, append([]string{"serve", "--print-config"}, row.args...)...)
		require.Equal(t, exitUsage, code, row.args)
		require.Contains(t, stderr, row.want)
	}
}
