package daemon

import (
	"fmt"
	"sync"
	"time"

	"shuffled/internal/daemon/registry"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
)

// A hostedGate is the daemon's side of an input gate: its region and doorbell,
// and the session of its consumer.
type hostedGate struct {
	session  *session
	id       uint64
	name     string
	created  time.Time
	layout   memseg.GateLayout
	memfd    *memseg.Memfd
	doorbell *memseg.Memfd
	words    *memseg.Region // the whole region, read-only, for statistics
	counters gateCounters   // guarded by Server.mu, as is words
	use      account
	freed    sync.Once
	channels []*hostedChannel // nil where there is no input yet; the session's goroutine's own
}

// A hostedChannel is the daemon's side of one channel of a gate. It is the
// shuffle.SubpartitionConsumer of its request.
type hostedChannel struct {
	gate    *hostedGate
	index   int
	asked   int64 // when the input was added, in ns
	request *registry.SubpartitionRequest
}

// newHostedGate makes the region of a gate and books it; free gives it back.
func (s *session) newHostedGate(channels int, name string) (*hostedGate, error) {
	g := &hostedGate{session: s, id: s.server.nextID.Add(1), name: name, created: s.server.config.Now(),
		channels: make([]*hostedChannel, channels)}
	if err := g.create(channels); err != nil {
		g.free()
		return nil, describeShortage(err)
	}
	return g, nil
}

// create does so step by step; free undoes as far as it came.
func (g *hostedGate) create(channels int) (err error) {
	server := g.session.server
	if g.layout, err = memseg.NewGateLayout(g.id, channels); err != nil {
		return err
	}
	use := account{
		gates: 1, control: g.layout.RegionSize() + memseg.DoorbellSize(channels),
		heap: gateHeap + inputHeap*int64(channels),
	}
	if err = server.ledger.reserve(g.session.who.UID, use); err != nil {
		return err
	}
	g.use = use
	if g.memfd, err = memseg.CreateMemfd(server.objectName("gate"), g.layout.RegionSize()); err != nil {
		return err
	}
	if g.doorbell, err = memseg.CreateOpenMemfd(server.objectName("doorbell"),
		memseg.DoorbellSize(channels)); err != nil {
		return err
	}
	for _, m := range []*memseg.Memfd{g.memfd, g.doorbell} {
		if err = m.Commit(0, m.Size()); err != nil {
			return err
		}
		if err = m.SealSeals(); err != nil {
			return err
		}
	}
	if err = g.memfd.WriteAt(g.layout.EncodeHeader(), 0); err != nil {
		return err
	}
	words, err := g.memfd.Map(memseg.ReadOnly, 0)
	if err != nil {
		return err
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	g.words = words
	server.gates[g.id] = g
	return nil
}

// free gives everything back that nobody holds, and leaves the rest to the books,
// once. The requests of the channels have ended.
func (g *hostedGate) free() { g.freed.Do(g.giveBack) }

func (g *hostedGate) giveBack() {
	server := g.session.server
	server.mu.Lock()
	delete(server.gates, g.id)
	if g.words != nil {
		server.statistics.gateEnded(g)
		_ = g.words.Close()
	}
	server.mu.Unlock()
	who := g.session.who
	server.books.leave(&leftBehind{
		name: fmt.Sprintf("gate %d %q", g.id, g.name), uid: who.UID, pid: who.PID, memfd: g.memfd, doorbell: g.doorbell,
		use: g.use,
	})
}

// prepare sets the words of the channel to where the partition starts, before
// either side is told.
func (c *hostedChannel) prepare(firstOrdinal uint64) error {
	words, offset := c.gate.layout.InitialChannelWords(c.index, firstOrdinal)
	return c.gate.memfd.WriteAt(words, offset)
}

// Failed implements shuffle.SubpartitionConsumer.
func (c *hostedChannel) Failed(err error) {
	if c.gate.session.server.isClosed() {
		return // the client is to see the end of the connection
	}
	c.gate.session.server.statistics.reject(err)
	c.gate.session.notifyFunc(func() (*controlpb.ServerMessage, ipc.FDs, error) {
		return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_InputFailed{InputFailed: &controlpb.InputFailed{
			GateId: c.gate.id, Channel: uint32(c.index), Error: ipc.EncodeError(err),
		}}}, nil, nil
	})
}

// Place implements shuffle.SubpartitionConsumer.
func (c *hostedChannel) Place() (gate uint64, channel int) { return c.gate.id, c.index }
