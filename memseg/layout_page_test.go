package memseg

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pageFields are the fields that docs/layout.md must place, in its tables' order.
var pageFields = map[string][]struct {
	name          string
	offset, width int
}{
	"header": {
		{"magic", hdrMagic, 8}, {"version", hdrVersion, 4}, {"size", hdrSize, 4}, {"features", hdrFeatures, 8},
		{"kind", hdrKind, 4}, {"type", hdrType, 4}, {"id", hdrID, 16}, {"epoch", hdrEpoch, 8},
		{"channels", hdrChannels, 4},
		{"segments", hdrSegments, 4}, {"segment size", hdrSegmentSize, 4}, {"queue capacity", hdrQueueCapacity, 4},
		{"first ordinal", hdrFirstOrdinal, 8}, {"region size", hdrRegionSize, 8}, {"ready", hdrReady, 8},
	},
	"partition": {
		{"parked", partParked, 4}, {"records", partRecords, 8}, {"back-pressured", partBackPressuredNs, 8},
		{"idle", partIdleNs, 8},
		{"wake-ups", partWakeUps, 8}, {"pool size", partPoolSize, 8},
	},
	"queue": {
		{"published", queuePublished, 8}, {"position", queuePosition, 8}, {"flushed", queueFlushed, 8},
		{"buffers", queueBuffers, 8},
		{"wanted", queueWantReleased, 8}, {"limit", queueHeldLimit, 8}, {"priority", queuePriority, 8},
	},
	"descriptor": {
		{"stamp", descStamp, 4}, {"segment", descSegment, 4}, {"length", descLength, 4}, {"data type", descType, 4},
	},
	"gate":     {{"parked", gateParked, 4}, {"wake-ups", gateWakeUps, 8}, {"idle", gateIdleNs, 8}},
	"channel":  {{"released", chanReleased, 8}, {"priority released", chanPriorityReleased, 8}, {"want", chanWant, 8}},
	"doorbell": {{"futex", doorbellFutex, 4}, {"bits", doorbellBits, 8}},
}

func layoutPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/layout.md")
	require.NoError(t, err)
	return string(page)
}

// Programs in other languages are written from the page.
func TestLayoutPageHasTheOffsetsOfTheCode(t *testing.T) {
	found := map[string][]string{}
	table := ""
	for line := range strings.Lines(layoutPage(t)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) >= 3 && cells[0] == "offset" && cells[1] == "width":
			table = cells[2]
		case len(cells) < 3:
			table = ""
		case table != "":
			if _, err := strconv.Atoi(cells[0]); err == nil {
				found[table] = append(found[table], fmt.Sprintf("%s at %s, %s bytes", cells[2], cells[0], cells[1]))
			}
		}
	}
	want := map[string][]string{}
	for table, fields := range pageFields {
		for _, f := range fields {
			want[table] = append(want[table], fmt.Sprintf("%s at %d, %d bytes", f.name, f.offset, f.width))
		}
	}
	require.Equal(t, want, found)
}

// wordsOfTheCode are the constants of pageFields that are words, by their place there.
var wordsOfTheCode = map[string][]string{
	"partition": {"partParked", "partRecords", "partBackPressuredNs", "partIdleNs", "partWakeUps", "partPoolSize"},
	"queue": {
		"queuePublished", "queuePosition", "queueFlushed", "queueBuffers", "queueWantReleased", "queueHeldLimit",
		"queuePriority",
	},
	"gate":     {"gateParked", "gateWakeUps", "gateIdleNs"},
	"channel":  {"chanReleased", "chanPriorityReleased", "chanWant"},
	"doorbell": {"doorbellFutex", "doorbellBits"},
}

// Each word says who writes it, who reads it and which store publishes it, and the page
// names the same writer.
func TestLayoutPageHasTheWritersOfTheCode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "layout.go", nil, parser.ParseComments)
	require.NoError(t, err)
	said := regexp.MustCompile(`writer: (\w+)\. readers: [\w, ]+\. published by: [^\n]+\.`)
	writers := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Doc != nil {
			if match := said.FindStringSubmatch(spec.Doc.Text()); match != nil {
				writers[spec.Names[0].Name] = match[1]
			}
		}
		return true
	})
	page := layoutPage(t)
	for table, words := range wordsOfTheCode {
		require.Len(t, words, len(pageFields[table]), table)
		for i, word := range words {
			require.NotEmpty(t, writers[word], "%s does not say its writer, its readers and what publishes it", word)
			f := pageFields[table][i]
			row := fmt.Sprintf("| %d | %d | %s | %s |", f.offset, f.width, f.name, writers[word])
			require.True(t, strings.Contains(page, row), "the page has no row %q for %s", row, word)
		}
	}
}

// A constant of the layout that no comparison with the page uses might change unseen.
func TestEveryConstantOfTheLayoutIsComparedWithThePage(t *testing.T) {
	compared := map[string]bool{"ringBytesPerRegion": true} // the daemon's choice, which the page leaves open
	test, err := parser.ParseFile(token.NewFileSet(), "layout_page_test.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(test, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			compared[name.Name] = true
		}
		return true
	})
	layout, err := parser.ParseFile(token.NewFileSet(), "layout.go", nil, 0)
	require.NoError(t, err)
	constants := 0
	for _, decl := range layout.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, spec := range block.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				require.True(t, name.Name == "_" || compared[name.Name], "%s is compared with nothing on the page",
					name.Name)
				constants++
			}
		}
	}
	require.Greater(t, constants, 50)
}

func TestLayoutPageKnowsNoFeature(t *testing.T) { require.Zero(t, uint64(knownFeatures)) }

func TestLayoutPageHasTheDataTypesOfTheCode(t *testing.T) {
	known := map[DataType]bool{}
	_, rows, ok := strings.Cut(layoutPage(t), "| data type | meaning |")
	require.True(t, ok)
	rows, _, _ = strings.Cut(rows, "\n\n")
	for row := range strings.Lines(rows) {
		for _, cell := range strings.Split(strings.Split(strings.Trim(row, "|"), "|")[0], ",") {
			if n, err := strconv.Atoi(strings.TrimSpace(cell)); err == nil {
				known[DataType(n)] = true
			}
		}
	}
	for n := range 256 {
		typ := DataType(n)
		require.Equal(t, typ.Valid() && (typ.IsBuffer() || typ.IsEvent()), known[typ], "%d, %v", n, typ)
	}
	for n, typ := range map[int]DataType{1: DataBuffer, 2: EventBuffer, 3: PrioritizedEventBuffer, 10: EndOfPartition} {
		require.EqualValues(t, n, typ)
	}
}

func TestLayoutPageHasTheNumbersOfTheCode(t *testing.T) {
	l := goldenPartition(t)
	grouped := func(n int64) string {
		s := strconv.FormatInt(n, 10)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	}
	// Words of the page, with its line breaks taken out.
	page := strings.Join(strings.Fields(layoutPage(t)), " ")
	for _, text := range []string{
		fmt.Sprintf("layout version %d", LayoutVersion),
		fmt.Sprintf("| 8 | 4 | version | %d. Refuse others |", LayoutVersion),
		fmt.Sprintf("| 12 | 4 | size | %d |", headerSize),
		fmt.Sprintf("| 24 | 4 | kind | %d partition, %d gate |", kindPartition, kindGate),
		fmt.Sprintf("The first %d bytes of a partition or gate region", headerSize),
		fmt.Sprintf("`roundUp(%d + 8·ceil(channels/%d), %d)`", doorbellBits, doorbellBitsPerWord, pageSize),
		fmt.Sprintf("`roundUp(%d + 8·ceil(subpartitions/%d), %d)`", doorbellBits, doorbellBitsPerWord, pageSize),
		"refuse any |",
		fmt.Sprintf("With %d subpartitions, %d segments of %s bytes and a queue capacity of %d the queue stride is %s, M is %s, S is %s and the region has %s bytes",
			l.Subpartitions, l.Segments, grouped(int64(l.SegmentSize)), l.QueueCapacity, grouped(l.queueStride()),
			grouped(l.markersOffset()), grouped(l.SegmentOffset(0)), grouped(l.RegionSize())),
		fmt.Sprintf("%#x", uint64(regionMagic)), fmt.Sprintf("%#x", uint64(regionReady)),
		fmt.Sprintf("1 to %s", grouped(maxLayoutChannels)), fmt.Sprintf("1 to %s", grouped(maxLayoutSegments)),
		fmt.Sprintf("%d to %s", minLayoutSegmentSize, grouped(maxLayoutSegmentSize)),
		fmt.Sprintf("%d to %s", minQueueCapacity, grouped(maxQueueCapacity)),
		fmt.Sprintf("queue stride = %d + (queue capacity + %d)·%d", queueControlSize, priorityCapacity, descriptorSize),
		fmt.Sprintf("event slot e = %s + %d·e", grouped(partEventSlots), eventSlotSize),
		fmt.Sprintf("queue of i = %s + i·(queue stride)", grouped(partQueuesStart)),
		fmt.Sprintf("event slots 0 to %d <%d·%d>", eventSlots-1, eventSlots, eventSlotSize),
		fmt.Sprintf("stands in priority place `o mod %d`", priorityCapacity),
		fmt.Sprintf("At most %d events", eventsPerQueue-1),
		fmt.Sprintf("R = %d + capacity·%d", queueRing, descriptorSize),
		fmt.Sprintf("Event: the event slot, 0 to %d", eventSlots-1), fmt.Sprintf("event: its bytes, at most %d",
			EventSlotSize),
		"| −2,147,483,648 | finished with 0 bytes |",
		fmt.Sprintf("upper half %d segments of its pool, %d the quota of buffers of this subpartition, %d places of the queue, %d events",
			HeldSegments, HeldQuota, HeldPlaces, HeldEvents),
		fmt.Sprintf("M = roundUp(queue of channels, %d)", lineSize),
		fmt.Sprintf("marker of j = M + %d·j", markerStride),
		fmt.Sprintf("S = roundUp(marker of segments, %d)", segmentAlignment),
		fmt.Sprintf("channel c = %s + %d·c", grouped(gateChannelsStart), gateChannelStride),
		fmt.Sprintf("`WITHDRWN`, 0x%X,", uint64(withdrawn)),
		fmt.Sprintf("a length of %d bytes, **big-endian**", LengthPrefix),
	} {
		require.Contains(t, page, text)
	}
}
