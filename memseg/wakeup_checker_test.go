//go:build !race

package memseg

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A move is a step of one of the programs.
type move struct {
	world world
	who   string
}

// moves returns what can happen next, and whether that is nothing but a death. An
// error is a wrong step.
func (m *model) moves(w *world) (to []move, last bool, err error) {
	add := func(who string, step func(*world) (bool, error)) error {
		next := *w
		moved, err := step(&next)
		if moved {
			to = append(to, move{next, who})
		}
		return err
	}
	sure := func(step func(*world) bool) func(*world) (bool, error) {
		return func(w *world) (bool, error) { return step(w), nil }
	}
	if w.control.died != producerDied {
		_ = add("writer", sure(m.stepWriter))
		_ = add("flusher", sure(m.stepFlusher))
	}
	if w.control.died != consumerDied {
		thresholds := m.thresholds
		if w.consumer.at != consumerArms && w.consumer.at != consumerChecksPosition || w.consumer.ring.stage > 0 {
			thresholds = thresholds[:1] // it does not choose now
		}
		for _, threshold := range thresholds {
			if err := add("consumer",
				func(w *world) (bool, error) { return m.stepConsumer(w, threshold) }); err != nil {
				return nil, false, err
			}
		}
	}
	_ = add("control", sure(m.stepControl))
	last = len(to) == 0
	if m.crashes && w.control.died == 0 {
		if w.writer.at != ended || w.flusher.at != ended {
			_ = add("the producer dies", func(w *world) (bool, error) {
				w.control.died = producerDied
				return true, nil
			})
		}
		if w.consumer.at != ended {
			_ = add("the consumer dies", func(w *world) (bool, error) {
				w.control.died = consumerDied
				return true, nil
			})
		}
	}
	return to, last, nil
}

// judge returns what is wrong with a world. last says that nobody can make a step
// any more.
func (m *model) judge(w *world, last bool) error {
	p, f, c := &w.writer, &w.flusher, &w.consumer
	producerLives, consumerLives := w.control.died != producerDied, w.control.died != consumerDied

	// Nothing may be coming that would wake the sleeper: the others are between
	// their operations, which they might leave for a long time.
	newsIsThere := w.control.died == 0 || w.control.at == ended
	writerRests := !producerLives || p.ring.stage == 0 && (p.at == start || p.at == asleep || p.at == ended)
	flusherRests := !producerLives || f.ring.stage == 0 && (f.at == start || f.at == ended)
	consumerRests := !consumerLives || c.ring.stage == 0 && (c.at == start || c.at == asleep || c.at == ended)

	if consumerLives && c.at == asleep && writerRests && flusherRests && newsIsThere {
		switch {
		case w.priority > c.nextPriority:
			return fmt.Errorf("the consumer sleeps before a priority event")
		case w.consumerNotice && !c.failed:
			return fmt.Errorf("the consumer sleeps though its producer is lost")
		case !c.blocked && m.isBeyond(w.flushed, c.read):
			return fmt.Errorf("the consumer sleeps at %d, flushed is %d", c.read, w.flushed)
		case !c.blocked && m.isBeyond(w.position, w.want):
			return fmt.Errorf("the consumer sleeps, position %d is beyond the %d it wants", w.position, w.want)
		}
	}
	if producerLives && p.at == asleep && consumerRests && newsIsThere {
		switch {
		case w.producerNotice:
			return fmt.Errorf("the writer sleeps though its consumer is lost")
		case m.isBeyond(w.released, w.wantReleased):
			return fmt.Errorf("the writer sleeps, %d elements are released and it wants %d", w.released,
				w.wantReleased+1)
		}
	}
	if !last {
		return nil
	}
	switch {
	case producerLives && p.at != ended:
		return fmt.Errorf("the writer sleeps for ever")
	case producerLives && f.at != ended:
		return fmt.Errorf("the flusher waits for ever")
	case consumerLives && c.at != ended:
		return fmt.Errorf("the consumer sleeps for ever")
	case consumerLives && c.outcome == readToTheEnd && int(c.next) != len(m.kind):
		return fmt.Errorf("the end was read after %d of %d elements", c.next, len(m.kind))
	case consumerLives && c.outcome == readAllAndFails && !c.blocked:
		open := int8(0)
		if c.next < w.published {
			open, _ = markerBytes(w.marker[m.segment[c.next]])
		}
		if w.published-c.next > 1 || c.inElement != open || c.nextPriority != w.priority {
			return fmt.Errorf("the producer's death was reported before all that it had committed")
		}
	}
	return nil
}

// A verdict is what the checker found: how much there was to look at, and the
// schedule that leads to a mistake.
type verdict struct {
	worlds   int
	wrong    error
	schedule []string
}

// check runs all schedules of a scenario, depth first. A world that was seen
// before is not looked at again; one that leads back to itself means that the
// programs can run for ever without getting anywhere.
func check(s scenario) verdict {
	type frame struct {
		moves []move
		next  int
		world world
	}
	const onPath, left = 1, 2
	m := newModel(s)
	seen := map[world]uint8{}
	var path []frame
	var v verdict
	fail := func(err error, last string) verdict {
		for _, f := range path[:len(path)-1] {
			v.schedule = append(v.schedule, f.moves[f.next-1].who)
		}
		v.schedule = append(v.schedule, last)
		v.worlds, v.wrong = len(seen), err
		return v
	}
	enter := func(w world) error {
		moves, last, err := m.moves(&w)
		seen[w] = onPath
		path = append(path, frame{moves: moves, world: w})
		if err != nil {
			return err
		}
		return m.judge(&w, last)
	}
	if err := enter(m.initial()); err != nil {
		return fail(err, "at the start")
	}
	for len(path) > 0 {
		f := &path[len(path)-1]
		if f.next == len(f.moves) {
			seen[f.world] = left
			path = path[:len(path)-1]
			continue
		}
		next := f.moves[f.next]
		f.next++
		switch seen[next.world] {
		case onPath:
			path = append(path, frame{})
			return fail(fmt.Errorf("the programs run in a circle"), "and so on")
		case left:
		default:
			if err := enter(next.world); err != nil {
				return fail(err, "here")
			}
		}
	}
	v.worlds = len(seen)
	return v
}

// runs shortens a schedule: "writer 3, consumer 2".
func runs(schedule []string) string {
	var parts []string
	for i := 0; i < len(schedule); {
		n := 1
		for i+n < len(schedule) && schedule[i+n] == schedule[i] {
			n++
		}
		parts = append(parts, fmt.Sprintf("%s %d", schedule[i], n))
		i += n
	}
	return strings.Join(parts, ", ")
}

var scenarios = []scenario{
	{
		name: "buffers and flushes", segments: 3, thresholds: []cursor{0}, crashes: true,
		ops: []op{opRecord, opCommit, opRecord, opFlush, opFinish, opRecord, opFlush, opFinish, opEnd},
	},
	{
		name: "empty rest of a buffer", segments: 3, thresholds: []cursor{0}, crashes: true,
		ops: []op{opRecord, opFlush, opFinish, opEvent, opEnd},
	},
	{
		name: "thresholds that change", segments: 3, thresholds: []cursor{0, 2, 5}, crashes: true,
		ops: []op{opRecord, opFinish, opRecord, opFlush, opFinish, opEnd},
	},
	{
		name: "threshold beyond all data", segments: 3, thresholds: []cursor{40}, crashes: true,
		ops: []op{opRecord, opFinish, opRecord, opFlush, opRecord, opFinish, opEvent, opRecord, opFinish, opEnd},
	},
	{
		name: "priority events", segments: 3, thresholds: []cursor{0, 40}, crashes: true,
		ops: []op{opRecord, opFinish, opPriority, opRecord, opFlush, opPriority, opFinish, opEnd},
	},
	{
		name: "barrier and priority event", segments: 3, thresholds: []cursor{0, 40}, crashes: true,
		ops: []op{opRecord, opFinish, opBarrier, opRecord, opFinish, opPriority, opEnd},
	},
	{
		name: "one segment", segments: 1, thresholds: []cursor{0}, crashes: true,
		ops: []op{opRecord, opFinish, opRecord, opFlush, opFinish, opRecord, opFinish, opEnd},
	},
	{
		name: "threshold beyond the pool", segments: 2, thresholds: []cursor{0, 40}, crashes: true,
		ops: []op{opRecord, opFinish, opRecord, opFinish, opRecord, opFinish, opEnd},
	},
	{
		name: "distance between writer and reader", segments: 3, thresholds: []cursor{0, 40}, distance: true,
		crashes: true,
		ops: []op{
			opRecord, opFinish, opRecord, opFinish, opRecord, opFinish, opRecord, opFinish,
			opRecord, opFinish, opRecord, opFinish, opEnd,
		},
	},
	{
		name: "user that keeps what it may", segments: 2, keeps: 3, thresholds: []cursor{0, 40}, crashes: true,
		ops: []op{opRecord, opFinish, opEvent, opEvent, opRecord, opFinish, opRecord, opFinish, opEnd},
	},
	{
		name: "events before a full pool", segments: 1, thresholds: []cursor{0, 40}, crashes: true,
		ops: []op{opEvent, opEvent, opRecord, opFinish, opRecord, opFinish, opEnd},
	},
	{
		name: "flusher beside the writer", segments: 2, thresholds: []cursor{0, 40}, ticks: 2,
		ops: []op{opRecord, opCommit, opRecord, opFinish, opRecord, opFinish, opEnd},
	},
	{
		name: "flusher beside a blocked writer", segments: 1, thresholds: []cursor{40}, ticks: 1, crashes: true,
		ops: []op{opRecord, opFinish, opRecord, opFinish, opEnd},
	},
}

func TestNoScheduleLosesAWakeUp(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			s.first = firstBeforeWrap
			v := check(s)
			require.NoError(t, v.wrong, "schedule: %s", runs(v.schedule))
			t.Logf("%d worlds", v.worlds)
		})
	}
}

// mistakes lists them with a scenario that shows each.
var mistakes = []struct {
	mistake  mistake
	scenario string
}{
	{countsARecordBeforeWritingIt, "flusher beside a blocked writer"},
	{finishesAfterMoving, "buffers and flushes"},
	{readsWantBeforeMoving, "buffers and flushes"},
	{readsWantBeforeFlushing, "threshold beyond all data"},
	{flushesSilently, "threshold beyond all data"},
	{eventsAreNotFlushed, "threshold beyond all data"},
	{priorityRingsOnlyTheArmed, "barrier and priority event"},
	{setsTheBitLast, "buffers and flushes"},
	{readsParkedFirst, "buffers and flushes"},
	{armsWithoutLookingAgain, "buffers and flushes"},
	{looksAgainBeforeArming, "buffers and flushes"},
	{sleepsWithoutComparing, "buffers and flushes"},
	{storesParkedAfterComparing, "buffers and flushes"},
	{loadsTheCountWhenItSleeps, "buffers and flushes"},
	{readsNoticesBeforeTheCount, "buffers and flushes"},
	{wakesBeforeTheNotice, "buffers and flushes"},
	{blocksWithoutFlushing, "flusher beside a blocked writer"},
	{armsReleaseAfterLooking, "one segment"},
	{armsReleaseAfterLooking, "distance between writer and reader"},
	{armsForWhatTheUserKeeps, "user that keeps what it may"},
	{armsBeyondItsReach, "distance between writer and reader"},
	{parksAfterTakingElements, "events before a full pool"},
	{readsWantReleasedBeforeMoving, "one segment"},
	{flushesWithoutTheLock, "flusher beside the writer"},
}

func TestEveryMistakeIsFound(t *testing.T) {
	for _, row := range mistakes {
		t.Run(string(row.mistake), func(t *testing.T) {
			i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == row.scenario })
			s := scenarios[i]
			s.first, s.mistake = firstBeforeWrap, row.mistake
			v := check(s)
			require.Error(t, v.wrong)
			t.Logf("%v, after %d worlds; schedule: %s", v.wrong, v.worlds, runs(v.schedule))
		})
	}
}
