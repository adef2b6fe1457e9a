package page

import (
	stdbytes "bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

var update = flag.Bool("update", false, "write the page of the test to testdata")

// written returns the page of some files.
func written(t *testing.T, sources ...Source) string {
	t.Helper()
	var out stdbytes.Buffer
	require.NoError(t, Write(&out, sources))
	return out.String()
}

// titles returns the titles of the page's sections.
func titles(page string) (titles []string) {
	for _, match := range regexp.MustCompile(`<h2 id="section-\d+">([^<]*)</h2>`).FindAllStringSubmatch(page, -1) {
		titles = append(titles, match[1])
	}
	return titles
}

func TestPageIsAsItWas(t *testing.T) {
	got := written(t, samples()[:2]...)
	const path = "testdata/report.html"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, got == string(want),
		"the page is not %s: see what differs, and if it is meant, run the test with -update", path)
	require.Equal(t, got, written(t, samples()[:2]...), "the same files make the same page")
}

func TestPageHasSectionsOfTheWorkloadsThatItIsGiven(t *testing.T) {
	require.Equal(t, []string{"Throughput", "Latency", "Fan-out", "Many partitions", "System calls and copies"},
		titles(written(t, samples()...)))
	require.Equal(t, []string{"Latency"}, titles(written(t, samples()[1])))
	mixed := written(t, samples()[4], samples()[0], samples()[2])
	require.Equal(t, []string{"Throughput", "Fan-out", "System calls and copies"}, titles(mixed),
		"the order is the page's")
	require.Contains(t, mixed,
		"<title>shuffled bench: Throughput, fan-out, system calls and copies, 2026-05-04</title>")
}

func TestPageKeepsFilesOfOneWorkloadApart(t *testing.T) {
	page := written(t, Source{"a.json", sampleThroughput()}, Source{"b.json", sampleThroughput()})
	require.Equal(t, []string{"Throughput: a.json", "Throughput: b.json"}, titles(page))
}

func TestPageKeepsMachinesApart(t *testing.T) {
	other, busy := sampleThroughput(), sampleThroughput()
	other.Machine.Kernel = "6.2.0"
	busy.Machine.Load = 9
	page := written(t, Source{"a.json", sampleThroughput()}, Source{"other.json", other})
	require.Equal(t, []string{"Throughput, machine A", "Throughput, machine B"}, titles(page))
	require.Contains(t, page, "<strong>2 machines:</strong>")
	page = written(t, Source{"a.json", sampleThroughput()}, Source{"busy.json", busy})
	require.NotContains(t, page, "machine A", "load before a run is not another machine")
}

func TestPageShowsAnUnknownWorkloadAndMetricAsATable(t *testing.T) {
	f := sample("juggling", func(f *results.File) {
		rounds(f, results.Settings{Transport: "hands", Pinned: "on"}, results.Round{"balls": 5, "fall_ns": 2e6})
	})
	page := written(t, Source{"juggling.json", f})
	require.Equal(t, []string{"Workload juggling"}, titles(page))
	require.Contains(t, page, `<th scope="col">balls</th>`)
	require.Contains(t, page, `<td>2.00 ms <small>1.80 – 2.20 ms</small></td>`)
	require.Contains(t, page, "All: pinned on")
}

func TestPageSaysWhatIsPartialAndDisturbed(t *testing.T) {
	f := sampleThroughput()
	f.Partial = "unix, round 3: stopped"
	page := written(t, Source{"a.json", f}, samples()[3])
	require.Contains(t, page,
		"<strong>Partial:</strong> a.json does not have all that was planned: unix, round 3: stopped")
	require.Contains(t, page, "<strong>Partial</strong>, of complete rounds only: unix, round 3: stopped")
	require.NotContains(t, page, "scale.json does not have all")
	require.Contains(t, page, "9 measurements of 3 rounds; other programs used 0.25 cores or more in 1 of 27 rounds")
}

func TestPageEscapesWhatFilesSay(t *testing.T) {
	f := sample(hostile, func(f *results.File) {
		for _, size := range []int{10, 100} {
			f.Add(results.Settings{Transport: hostile, RecordSize: size, Waiting: hostile, Via: hostile},
				results.Round{results.Metric(hostile): 1, results.RecordsPerS: 5})
		}
		f.Partial, f.Machine.CPU, f.Machine.Kernel, f.Machine.Go = hostile, hostile, hostile, hostile
	})
	for _, workload := range []string{hostile, "throughput", "latency", "fanout", "scale"} {
		f.Workload = workload
		page := written(t, Source{hostile, f}, Source{hostile + "2", f})
		require.NotContains(t, page, "<script")
		require.NotContains(t, page, "&amp;;", "text is escaped once")
		require.Equal(t, strings.Count(page, "<svg"), strings.Count(page, "</svg>"))
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	page := written(t, samples()...)
	for _, outside := range []string{"http:", "https:", "//", " src=", "url(", "@import", "<link", "<script",
		"<iframe"} {
		require.NotContains(t, page, outside)
	}
	require.Contains(t, page, "default-src 'none'")
}

func TestPageOfNoFilesIsAnError(t *testing.T) {
	require.ErrorContains(t, Write(new(stdbytes.Buffer), nil), "no results files")
}

func TestSummaryHasTheShuffleBesideTheOthers(t *testing.T) {
	s := summarise([]Source{{"a.json", sampleThroughput()}}, "")
	require.Equal(t, tile{"59.0 M/s", "Throughput, 100 B records",
		[]string{"2.03 × a Unix socket", "1.16 × the plain ring"}}, s.Tiles[1])
	require.Len(t, s.Tiles, 3)
	latency := latencyTiles(sampleLatency())
	require.Equal(t, tile{"6.00 µs", "Latency, median, round-trip, parked",
		[]string{"99 % within 48.0 µs", "1.50 × a bare futex"}}, latency[0])
	require.Equal(t, "Latency, median, one-way, spinning, 1,000/s", latency[2].Label)
	require.Equal(t, []tile{{"40.0 ns", "Processor time of a record, 1,000 subpartitions",
		[]string{"1.98 × that with 8", "4.10 KiB of shared memory each"}}}, fanoutTiles(sampleFanout()))
	require.Equal(t, tile{"0.400", "System calls for a MiB, 100 B records",
		[]string{"0.0167 bytes copied by the kernel for each byte"}}, auditTiles(sampleAudit())[0])
}

func TestSummarySaysWhereTheShuffleLoses(t *testing.T) {
	f := sample("throughput", func(f *results.File) {
		for _, of := range []struct {
			transport string
			perS, cpu float64
		}{{"shm", 50e6, 2}, {"ceiling", 90e6, 1}, {"unix", 52e6, 3}, {"tcp", 80e6, 2}} {
			rounds(f, results.Settings{Transport: of.transport, RecordSize: 16},
				results.Round{results.RecordsPerS: of.perS, results.CPUSPerGiB: of.cpu})
		}
		rounds(f, results.Settings{Transport: "unix", RecordSize: 17}, results.Round{results.RecordsPerS: 99e6})
	})
	s := summarise([]Source{{"a.json", f}}, "")
	require.Equal(t, []string{"unix", "tcp"}, s.Others)
	require.Equal(t, [][]cell{{
		{Text: "16 B records"}, {Text: "M records/s"}, {Text: "tcp, unix"}, {"80.0", "72.0 – 88.0"},
		{"50.0", "45.0 – 55.0"}, {Text: "0.625 ×"},
	}}, s.Losses.Rows, "not to the ceiling, which is no choice, nor to another size, nor where figures are the same")

	f.Results[3].Rounds = f.Results[0].Rounds
	s = summarise([]Source{{"a.json", f}}, "")
	require.Equal(t, cell{"0.962 ×", "rounds overlap"}, s.Losses.Rows[0][5])
	require.Contains(t, written(t, Source{"a.json", sampleAudit()}),
		"Of unix, none has a better median than shm in any figure that both have.")
}

func TestTablesHaveColumnsForWhatDiffers(t *testing.T) {
	b := throughputBlocks(sampleThroughput())
	require.Len(t, b, 1)
	require.Equal(t, "1 producer, 1 consumer", b[0].Heading)
	require.Equal(t, []string{"record", "transport", "M records/s", "GB/s", "ratio to ceiling", "ratio to unix"},
		b[0].Table.Head)
	require.Equal(t,
		"Throughput, median and lowest – highest round. All: 1 → 1 workers. shm: flush timeout 100ms, emit",
		b[0].Table.Caption)
	require.Equal(t, []cell{{Text: "16 B"}, {Text: "shm"}, {"75.0", "67.5 – 82.5"}, {"1.20", "1.08 – 1.32"},
		{Text: "0.577 ×"}, {Text: "0.872 ×"}}, b[0].Table.Rows[0])
	require.Len(t, b[0].Rounds.Rows, 27)
	require.Equal(t, []cell{{Text: "16 B"}, {Text: "shm"}, {Text: "1"}, {Text: "75.0"}, {Text: "1.20"},
		{Text: "0.500"}}, b[0].Rounds.Rows[0])
	require.Equal(t, cell{}, b[0].Rounds.Rows[1][5], "what was not measured is no zero")
}

func TestWorkersOfDifferentNumbersAreNotInOnePlot(t *testing.T) {
	f := sampleThroughput()
	rounds(f, results.Settings{Transport: "shm", RecordSize: 100, Producers: 4, Consumers: 2, Distribution: "keyed"},
		results.Round{results.RecordsPerS: 1e6})
	b := throughputBlocks(f)
	require.Len(t, b, 2)
	require.Equal(t, "4 producers, 2 consumers, keyed", b[1].Heading)
	require.Len(t, b[1].Panels, 1)
	require.Len(t, b[1].Panels[0].Drawing.Bars, 1, "of one size, bars")
	require.Empty(t, b[1].Panels[0].Drawing.Curves)
}

func TestPlotsHaveALineForEachTransport(t *testing.T) {
	panels := throughputBlocks(sampleThroughput())[0].Panels
	require.Len(t, panels, 2, "processor time was not measured")
	var labels []string
	for _, entry := range panels[0].Legend {
		labels = append(labels, entry.Label)
	}
	require.Equal(t, []string{"shm", "ceiling", "unix"}, labels, "not with what only shm has")
	for _, c := range panels[0].Drawing.Curves {
		require.Len(t, c.Marks, 3)
		require.Len(t, c.Whiskers, 3)
	}
	require.Equal(t, "shm, record size, bytes 100: M records/s 59.0 (53.1 – 64.9)",
		panels[0].Drawing.Curves[2].Marks[1].Tip, "the shuffle is drawn last")
}

func TestLatencyPlotsShareAnAxisAndHaveBareRoundTripsBesideRecords(t *testing.T) {
	panels := latencyBlocks(sampleLatency())[0].Panels
	require.Len(t, panels, 3)
	require.Equal(t, "Latency by percentile: round-trip, parked", panels[0].Caption)
	require.Len(t, panels[0].Drawing.Curves, 2)
	require.Equal(t, "futex", panels[0].Legend[1].Label)
	for _, p := range panels {
		require.Equal(t, panels[0].Drawing.Texts[0], p.Drawing.Texts[0])
		for _, c := range p.Drawing.Curves {
			require.Len(t, c.Marks, 6, "75 % has no mark, 100 % no place")
			require.Len(t, strings.Fields(c.Points), 7)
		}
	}
}

func TestLatenciesWithoutPercentilesAreThoseOfRounds(t *testing.T) {
	f := sample("latency", func(f *results.File) {
		rounds(f, results.Settings{Transport: "shm", RatePerS: 100}, results.Round{results.P50: 1000, results.P99: 5000,
			results.AchievedPerS: 50})
	})
	b := latencyBlocks(f)[0]
	require.Len(t, b.Panels[0].Drawing.Curves[0].Marks, 2)
	require.Equal(t, []cell{{Text: "shm"}, {"1.00 µs", "900 ns – 1.10 µs"}, {"5.00 µs", "4.50 – 5.50 µs"},
		{"50.0", "saturated, 45.0 – 55.0"}}, b.Table.Rows[0])
	require.Equal(t, "shm, saturated", b.Panels[0].Legend[0].Label)
}

func TestFanoutLinesGoOnWhereThereAreFewerProcesses(t *testing.T) {
	for _, p := range fanoutBlocks(sampleFanout())[0].Panels {
		require.Len(t, p.Drawing.Curves, 2, p.Caption)
		for _, c := range p.Drawing.Curves {
			require.Len(t, c.Marks, 3)
		}
	}
}

func TestAuditIsShownOfEveryFileThatHasOne(t *testing.T) {
	f := sampleThroughput()
	f.Results[0].Rounds[0][results.CopiedPerByte] = 0.5
	page := written(t, Source{"a.json", f}, samples()[4])
	require.Equal(t, []string{"Throughput", "System calls and copies: a.json", "System calls and copies: audit.json"},
		titles(page))
	rows := auditBlocks(f)[0].Table.Rows
	require.Len(t, rows, 1)
	require.Equal(t, cell{Text: "0.500"}, rows[0][1])
}

func TestSeriesDifferInColourOrInShapeAndDash(t *testing.T) {
	seen := make(map[string]bool)
	for _, transport := range []string{"shm", "ceiling", "cache-line", "unix", "tcp", "pipe", "grpc"} {
		for nth := range 4 {
			s := styleOf(transport, nth)
			key := fmt.Sprint(s.Colour, s.Shape, s.Dash)
			require.False(t, seen[key], "%s %d", transport, nth)
			seen[key] = true
			require.NotEmpty(t, s.Shape)
		}
	}
	require.Equal(t, styleOf("unknown", 0), styleOf("other", 0))
}

func TestDrawingsOfExtremeFiguresHaveNumbersOnly(t *testing.T) {
	var sources []Source
	for _, workload := range []string{"throughput", "latency", "fanout", "scale", "audit"} {
		for _, v := range []float64{0, 1e-30, 1e30} {
			f := sample(workload, func(f *results.File) {
				for _, n := range []int{0, 1, math.MaxInt} {
					s := results.Settings{Transport: "shm", RecordSize: n, Producers: n, Consumers: n, Subpartitions: n,
						Partitions: n, RatePerS: 1e30}
					r := results.Round{}
					for _, metric := range results.Metrics {
						r[metric] = v
					}
					f.Add(s, r)
					f.Add(results.Settings{Transport: "unix", RecordSize: n},
						results.Round{results.RecordsPerS: 1, results.P50: 1})
				}
				f.Results[0].Percentiles = []results.Percentile{{Percent: -1, Ns: -1}, {Percent: 50, Ns: math.MinInt64},
					{Percent: 99.99999999, Ns: math.MaxInt64}, {Percent: 1e9}}
			})
			sources = append(sources, Source{fmt.Sprint(workload, v), f})
		}
	}
	page := written(t, sources...)
	for _, attribute := range regexp.MustCompile(` (?:x|y|x1|y1|x2|y2|width|height|points)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		require.Regexp(t, `^[0-9., -]*$`, attribute[1])
	}
}

// FuzzPageOfWhatIsRead writes pages of all files that can be read.
func FuzzPageOfWhatIsRead(f *testing.F) {
	for _, s := range samples() {
		var text stdbytes.Buffer
		require.NoError(f, s.File.WriteJSON(&text))
		f.Add(text.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := results.ReadFrom(strings.NewReader(text))
		if err != nil {
			return
		}
		require.Equal(t, strings.Count(written(t, Source{"a.json", file}), "<script"), 0)
	})
}
