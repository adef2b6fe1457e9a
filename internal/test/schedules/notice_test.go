//go:build race || schedules

package schedules

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// An interrupter is a memseg.Scheduler that lets something happen just before
// the access of a given number, or else in the sleep.
type interrupter struct {
	at        int
	accesses  int
	happens   func()
	happened  atomic.Bool
	overslept bool
	inSleep   bool
}

func (i *interrupter) Access() {
	if i.happened.Load() {
		return
	}
	if i.accesses++; i.accesses > i.at {
		i.happened.Store(true)
		i.happens()
	}
}

// Sleep never sleeps; it takes note of a sleep that nobody would end.
func (i *interrupter) Sleep(_ *memseg.Word32, unchanged func() bool) bool {
	if !i.happened.Swap(true) {
		i.inSleep = true
		i.happens()
	}
	i.overslept = i.overslept || unchanged()
	return true
}

func (i *interrupter) Wake(*memseg.Word32) bool { return true }

// A notice is left by another goroutine of the gate's process. Whenever it comes,
// the reader must not sleep with it.
func TestNoticeIsNeverSleptOver(t *testing.T) {
	lost := errors.New("the daemon is lost")
	var closing sync.WaitGroup
	for _, notice := range []struct {
		name  string
		leave func(g *linktest.Gate)
		want  error
	}{
		{"the channel failed", func(g *linktest.Gate) { g.FailChannel(0, errPeer) }, errPeer},
		{"the daemon is lost", func(g *linktest.Gate) { g.SetDaemonLost(lost) }, lost},
		{"the gate is closed", func(g *linktest.Gate) {
			rings := g.Rings()
			closing.Go(func() { _ = g.Close() }) // it waits for the reader
			for g.Rings() == rings {
				runtime.Gosched()
			}
		}, shuffle.ErrClosed},
	} {
		t.Run(notice.name, func(t *testing.T) {
			for at := 0; ; at++ {
				tb := &runTest{t: t}
				gate := linktest.NewGate(tb, linktest.Heap, 1)
				i := &interrupter{at: at, happens: func() { notice.leave(gate) }}
				memseg.SetScheduler(i)
				_, err := gate.Next(context.Background())
				closing.Wait()
				memseg.SetScheduler(nil)
				require.ErrorIs(t, err, notice.want)
				require.False(t, i.overslept, "the notice came before access %d", at+1)
				tb.end()
				if i.inSleep {
					break
				}
			}
		})
	}
}
