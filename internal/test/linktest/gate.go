package linktest

import (
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"shuffled/internal/gate"
	"shuffled/internal/partition"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// A Gate is an InputGate with its memory. Its channels may read subpartitions of
// several links.
type Gate struct {
	*gate.InputGate
	// Closed counts the calls of GateControl.CloseGate.
	Closed atomic.Int32
	// Views counts the views of channels that were closed, and Whole those of them
	// whose streams were whole.
	Views, Whole atomic.Int32

	t        TB
	objects  *objects
	layout   memseg.GateLayout
	region   object
	doorbell object
	mapped   *memseg.Region // the gate's own
	unmap    []func()
	bell     *memseg.Doorbell // the test's
}

// NewGate returns a gate with so many channels, none of them attached. Their inputs
// are of no partition in particular; change may say more of the gate.
func NewGate(t TB, memory Memory, channels int, change ...func(spec *shuffle.GateSpec)) *Gate {
	t.Helper()
	layout, err := memseg.NewGateLayout(1, channels)
	require.NoError(t, err)
	g := &Gate{t: t, layout: layout, objects: newObjects(t, memory)}
	g.region = g.objects.create("gate", layout.RegionSize())
	g.doorbell = g.objects.create("gate doorbell", memseg.DoorbellSize(channels))
	region, unmapRegion := g.objects.use(g.region, memseg.ReadWrite)
	bell, unmapBell := g.objects.use(g.doorbell, memseg.ReadWrite)
	g.mapped, g.unmap = region, []func(){unmapRegion, unmapBell}
	g.bell, err = memseg.NewDoorbell(g.objects.pin(g.doorbell), channels)
	require.NoError(t, err)
	spec := shuffle.GateSpec{Inputs: make([]shuffle.Input, channels)}
	for _, f := range change {
		f(&spec)
	}
	g.InputGate, err = gate.NewInputGate(region, layout, bell, spec, gateHost{g})
	require.NoError(t, err)
	atEnd(t).close(func() { _ = g.Close() }) // the test may have closed it
	return g
}

type gateHost struct{ g *Gate }

func (h gateHost) CloseGate() error {
	h.g.Closed.Add(1)
	for _, unmap := range h.g.unmap {
		unmap()
	}
	return nil
}

// Attach makes a channel read a subpartition.
func (g *Gate) Attach(channel int, l *Link, sub int) {
	g.t.Helper()
	view := g.view(l, sub, channel)
	require.NoError(g.t, l.connect(g, channel, sub))
	g.AttachChannel(channel, view)
}

// view returns the consumer's end of a subpartition. It keeps the gate's words
// mapped, which it writes also after the gate was closed.
func (g *Gate) view(l *Link, sub, channel int) *partition.SubpartitionView {
	g.t.Helper()
	region, unmapRegion := l.objects.use(l.region, memseg.ReadOnly)
	bell, unmapBell := l.objects.use(l.doorbell, memseg.ReadWrite)
	releaseWords := g.objects.share(g.mapped)
	view, err := partition.NewSubpartitionView(region, l.Layout, bell, sub, g.ChannelWords(channel), func(whole bool) {
		g.Views.Add(1)
		if whole {
			g.Whole.Add(1)
		}
		unmapRegion()
		unmapBell()
		releaseWords()
	})
	require.NoError(g.t, err)
	return view
}

// Words returns the words of a channel, for a consumer that misbehaves. They stay
// usable until the end of the test.
func (g *Gate) Words(channel int) memseg.ChannelWords {
	return memseg.NewChannelWords(g.objects.pin(g.region), &g.layout, channel)
}

// Rings returns the doorbell's futex word, which counts.
func (g *Gate) Rings() uint32 { return g.bell.Rings() }

// LoseReadyBits clears the doorbell's bits, as only a hostile peer would.
func (g *Gate) LoseReadyBits() { g.bell.Collect(g.layout.Channels, func(int) {}) }

// PutCountBack gives the doorbell's futex word a value that it had, as only a hostile
// peer would.
func (g *Gate) PutCountBack(rings uint32) { g.objects.pin(g.doorbell).Word32(0).Store(rings) }

// Wake rings without saying for which channel, as a hostile peer may.
func (g *Gate) Wake() { g.bell.Wake() }

// Ring rings for a channel, as its producer does or a hostile peer may.
func (g *Gate) Ring(channel int) { g.bell.Ring(channel, g.GateWords().Parked) }

// IsParked reports whether the gate's reader sleeps.
func (g *Gate) IsParked() bool { return g.GateWords().Parked.Load() != 0 }

// GateWords returns the words of the gate as others see them.
func (g *Gate) GateWords() memseg.GateWords { return memseg.NewGateWords(g.objects.pin(g.region)) }

// RingHostile rings for any bit of the doorbell's first word, also for one that
// stands for no channel.
func (g *Gate) RingHostile(bit int) {
	bell, err := memseg.NewDoorbell(g.objects.pin(g.doorbell), 64)
	require.NoError(g.t, err)
	bell.Ring(bit, g.GateWords().Parked)
}
