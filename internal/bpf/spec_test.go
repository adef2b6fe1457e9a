package bpf

import (
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/require"
)

// objects are the compiled programs of each architecture.
var objects = map[string]string{"amd64": "tracer_x86_bpfel.o", "arm64": "tracer_arm64_bpfel.o"}

func loadObject(t *testing.T, file string) *ebpf.CollectionSpec {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec(file)
	require.NoError(t, err)
	return spec
}

func TestObjectsHoldThePrograms(t *testing.T) {
	type program struct {
		section string
		kind    ebpf.ProgramType
		attach  ebpf.AttachType
	}
	want := map[string]program{
		tracerProgSyscallEntered:        {"tp_btf/sys_enter", ebpf.Tracing, ebpf.AttachTraceRawTp},
		tracerProgSyscallLeft:           {"tp_btf/sys_exit", ebpf.Tracing, ebpf.AttachTraceRawTp},
		tracerProgSwitched:              {"tp_btf/sched_switch", ebpf.Tracing, ebpf.AttachTraceRawTp},
		tracerProgWaking:                {"tp_btf/sched_waking", ebpf.Tracing, ebpf.AttachTraceRawTp},
		tracerProgTimerBegins:           {"tp_btf/hrtimer_expire_entry", ebpf.Tracing, ebpf.AttachTraceRawTp},
		tracerProgTimerEnds:             {"tp_btf/hrtimer_expire_exit", ebpf.Tracing, ebpf.AttachTraceRawTp},
		tracerProgFaultedMinor:          {"perf_event", ebpf.PerfEvent, ebpf.AttachNone},
		tracerProgFaultedMajor:          {"perf_event", ebpf.PerfEvent, ebpf.AttachNone},
		tracerProgCopiedToUser:          {"fexit/_copy_to_iter", ebpf.Tracing, ebpf.AttachTraceFExit},
		tracerProgCopiedToUser4:         {"fexit/csum_and_copy_to_iter", ebpf.Tracing, ebpf.AttachTraceFExit},
		tracerProgCopiedFromUser:        {"fexit/_copy_from_iter", ebpf.Tracing, ebpf.AttachTraceFExit},
		tracerProgCopiedFromUser4:       {"fexit/copy_folio_from_iter_atomic", ebpf.Tracing, ebpf.AttachTraceFExit},
		tracerProgCopiedFromUserFull:    {"fexit/csum_and_copy_from_iter_full", ebpf.Tracing, ebpf.AttachTraceFExit},
		tracerProgRequestedToUser:       {"kprobe/_copy_to_iter", ebpf.Kprobe, ebpf.AttachNone},
		tracerProgRequestedToUser4:      {"kprobe/csum_and_copy_to_iter", ebpf.Kprobe, ebpf.AttachNone},
		tracerProgRequestedFromUser:     {"kprobe/_copy_from_iter", ebpf.Kprobe, ebpf.AttachNone},
		tracerProgRequestedFromUser4:    {"kprobe/copy_folio_from_iter_atomic", ebpf.Kprobe, ebpf.AttachNone},
		tracerProgRequestedFromUserFull: {"kprobe/csum_and_copy_from_iter_full", ebpf.Kprobe, ebpf.AttachNone},
		tracerProgBufferPublished:       {"uprobe/publish", ebpf.Kprobe, ebpf.AttachNone},
		tracerProgBufferConsumed:        {"uprobe/consume", ebpf.Kprobe, ebpf.AttachNone},
	}
	for architecture, file := range objects {
		t.Run(architecture, func(t *testing.T) {
			spec := loadObject(t, file)
			got := make(map[string]program)
			for name, p := range spec.Programs {
				got[name] = program{p.SectionName, p.Type, p.AttachType}
				require.Equal(t, "Dual MIT/GPL", p.License, name)
				require.False(t, strings.HasPrefix(p.SectionName, "uretprobe"), name)
				if kind, target, found := strings.Cut(p.SectionName, "/"); found && kind != "uprobe" {
					require.Equal(t, target, p.AttachTo, name)
				}
			}
			require.Equal(t, want, got)
		})
	}
}

func TestMapsAreBounded(t *testing.T) {
	type size struct {
		kind       ebpf.MapType
		maxEntries uint32
		keySize    uint32
	}
	for architecture, file := range objects {
		t.Run(architecture, func(t *testing.T) {
			spec := loadObject(t, file)
			got := make(map[string]size)
			for name, m := range spec.Maps {
				got[name] = size{m.Type, m.MaxEntries, m.KeySize}
			}
			require.Equal(t, map[string]size{
				tracerMapRoles:     {ebpf.Hash, MaxWatched, 4},
				tracerMapCounters:  {ebpf.PerCPUArray, Roles, 4},
				tracerMapThreads:   {ebpf.LRUHash, 1 << 14, 4},
				tracerMapPublished: {ebpf.LRUHash, 1 << 16, 16},
				tracerMapExpiring:  {ebpf.PerCPUArray, 1, 4},
				".rodata":          {ebpf.Array, 1, 4},
			}, got)
		})
	}
}

// The two architectures differ in registers only.
func TestObjectsHaveTheSameCounters(t *testing.T) {
	layout := func(file string) *btf.Struct {
		var counters *btf.Struct
		require.NoError(t, loadObject(t, file).Types.TypeByName("role_counters", &counters))
		return counters
	}
	amd64, arm64 := layout(objects["amd64"]), layout(objects["arm64"])
	require.Equal(t, amd64.Size, arm64.Size)
	require.Len(t, arm64.Members, len(amd64.Members))
	for i, member := range amd64.Members {
		require.Equal(t, member.Name, arm64.Members[i].Name)
		require.Equal(t, member.Offset, arm64.Members[i].Offset, member.Name)
	}
}

func TestCountersHaveAPlaceForEveryValue(t *testing.T) {
	var c tracerRoleCounters
	require.Len(t, c.Syscalls, SyscallNumbers)
	require.Len(t, c.Copied, directions)
	require.Len(t, c.Channels, Channels*directions)
	require.Len(t, c.OffCpu, OffCPUReasons)
	require.Len(t, c.WakeLatency, HistogramBuckets)
	require.Len(t, c.Handoff, HistogramBuckets)
	require.Len(t, c.Wakes, Roles)
}

// The programs and this package number the same things.
func TestNumbersInCAreThoseInGo(t *testing.T) {
	state, err := os.ReadFile("programs/state.h")
	require.NoError(t, err)
	calls, err := os.ReadFile("programs/syscalls.h")
	require.NoError(t, err)
	for first, want := range map[string][]string{
		"ROLE_OTHER,":  {"ROLE_OTHER", "ROLE_PRODUCER", "ROLE_CONSUMER", "ROLE_DAEMON"},
		"IN, /* to":    {"IN", "OUT"},
		"UNIX_STREAM,": {"UNIX_STREAM", "UNIX_PACKET", "TCP", "PIPE", "SHMEM", "FILE", "OTHER_CHANNEL"},
		"OFF_FUTEX_SHARED,": {"OFF_FUTEX_SHARED", "OFF_FUTEX_PRIVATE", "OFF_EPOLL", "OFF_SOCKET", "OFF_PIPE",
			"OFF_NANOSLEEP", "OFF_PAGE_FAULT", "OFF_YIELD", "OFF_PREEMPTED", "OFF_OTHER"},
		"CALL_PLAIN,": {"CALL_PLAIN", "CALL_READS", "CALL_WRITES", "CALL_SPLICES", "CALL_PEEKS", "CALL_POKES",
			"CALL_FUTEX", "CALL_FUTEX_WAITV", "CALL_FUTEX_WAIT", "CALL_FUTEX_WAKE", "CALL_FUTEX_REQUEUE"},
	} {
		require.Equal(t, want, enumFrom(string(state)+string(calls), first)[:len(want)])
	}
	require.Equal(t, []OffCPUReason{9, 64, 65}, []OffCPUReason{OffOther, byFutex, byChannel})
	require.EqualValues(t, 10, futexRequeue)
	require.EqualValues(t, 6, OtherChannel)
	require.EqualValues(t, 3, Daemon)
}

// enumFrom returns the names of an enum of C from one of them on.
func enumFrom(source, first string) (names []string) {
	_, rest, _ := strings.Cut(source, "\t"+first)
	rest, _, _ = strings.Cut(first+rest, "};")
	for line := range strings.Lines(rest) {
		if name, _, found := strings.Cut(strings.TrimSpace(line), ","); found && !strings.ContainsAny(name, " /") {
			names = append(names, name)
		}
	}
	return names
}
