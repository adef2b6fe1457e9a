package results

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartsOfAFigureComeInTheOrderOfTheirSize(t *testing.T) {
	f := Figures{
		SystemCalls: 12, SystemCalls.Part("read"): 2, SystemCalls.Part("write"): 7, SystemCalls.Part("futex"): 2,
		SystemCalls.Part("mmap"): 0, OffCPU.Part("epoll"): 9,
	}
	require.Equal(t, []string{"write", "futex", "read"}, f.Parts(SystemCalls))
	require.Empty(t, f.Parts(Woken))
}

func TestSumsOfFiguresHaveWhatBothHave(t *testing.T) {
	f := Figures{SystemCalls: 5, SystemCalls.Part("read"): 5, PageFaults: 1, Woken: 1, Woken.Part("daemon"): 1}
	f.Add(Figures{SystemCalls: 3, SystemCalls.Part("write"): 3, PageFaults: 0, OffCPU: 1, OffCPU.Part("epoll"): 1})
	require.Equal(t, Figures{SystemCalls: 8, SystemCalls.Part("read"): 5, SystemCalls.Part("write"): 3, PageFaults: 1},
		f)
}

func TestProfilesOfRoundsAddUp(t *testing.T) {
	profile := func(n float64, missing string) *Profile {
		return &Profile{
			Seconds: n, PayloadBytes: int64(n), Skipped: uint64(n), Missing: []Missing{{missing, "why"}},
			Notes:   []string{"note"},
			Handoff: &Handoff{Buffers: n, Bytes: 2 * n, Missed: 3 * n, Latency: Histogram{0, uint64(n)}},
			Roles: []RoleProfile{
				{Role: "producer", Processes: int(n), Figures: Figures{PageFaults: n},
					WakeLatency: Histogram{uint64(n)}},
				{Role: "consumer", Figures: Figures{}, WakeLatency: Histogram{uint64(n), 1}},
			},
		}
	}
	sum, other := profile(1, "a"), profile(2, "b")
	other.Roles[1].WakeLatency = nil
	sum.Add(other)
	require.Equal(t, &Profile{
		Seconds: 3, PayloadBytes: 3, Skipped: 3, Missing: []Missing{{"a", "why"}, {"b", "why"}},
		Notes:   []string{"note"},
		Handoff: &Handoff{Buffers: 3, Bytes: 6, Missed: 9, Latency: Histogram{0, 3}},
		Roles: []RoleProfile{
			{Role: "producer", Processes: 2, Figures: Figures{PageFaults: 3}, WakeLatency: Histogram{3}},
			{Role: "consumer", Figures: Figures{}},
		},
	}, sum)
	require.Nil(t, sum.Role("daemon"))
	other.Handoff = nil
	sum.Add(other)
	require.Nil(t, sum.Handoff)
	require.EqualValues(t, 3, Histogram{1, 2}.Count())
}

func TestAProfileIsReadAsItWasWritten(t *testing.T) {
	f := New("throughput")
	f.Add(Settings{Transport: "shm", Probes: "on"}, Round{CopiedPerByte: 0}).Profile = &Profile{
		Source: FromBPF, Seconds: 1.5, PayloadBytes: 7, CopySource: "counted",
		Overheads: []Overhead{{Metric: P50, With: 2, Without: 1, CostPercent: 100, P: 0.5}},
		Roles: []RoleProfile{{Role: "daemon", Processes: 1, Figures: Figures{MajorFaults: 0},
			WakeLatency: Histogram{0, 4}}},
	}
	f.Summarise()
	var text bytes.Buffer
	require.NoError(t, f.WriteJSON(&text))
	back, err := ReadFrom(&text)
	require.NoError(t, err)
	require.Equal(t, f.Results, back.Results)
}
