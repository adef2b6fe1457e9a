package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuffled/memseg"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A carelessRound is a partition that goroutines of one process write and end at the
// same time, without a lock. The process says ID and Ends when it begins, and the rest
// when the goroutines have ended.
type carelessRound struct {
	ID       shuffle.PartitionID
	Ends     string            // how it is ended: one of carelessEnds
	Emitted  [2]uint64         // records that each goroutine was told are emitted
	Refused  map[string]uint64 // calls by the sentinel of their error
	Finished bool              // Finish has returned nil
	Error    string            // an error that it should not be
	IsOver   bool
}

// carelessEnds are the ways in which a partition is ended under its writers.
var carelessEnds = map[string]func(ctx context.Context, p shuffle.ResultPartition,
	w *writer.RecordWriter[[]byte]) error{
	"close": func(context.Context, shuffle.ResultPartition, *writer.RecordWriter[[]byte]) error { return nil },
	"finish": func(ctx context.Context, _ shuffle.ResultPartition, w *writer.RecordWriter[[]byte]) error {
		for {
			if err := w.Finish(ctx); !errors.Is(err, shuffle.ErrConcurrentUse) {
				return err
			}
			stepAside()
		}
	},
	"finish once": func(ctx context.Context, _ shuffle.ResultPartition, w *writer.RecordWriter[[]byte]) error {
		return w.Finish(ctx)
	},
	"fail": func(ctx context.Context, _ shuffle.ResultPartition, w *writer.RecordWriter[[]byte]) error {
		return w.Fail(ctx, errors.New("careless"))
	},
	"release": func(ctx context.Context, p shuffle.ResultPartition, _ *writer.RecordWriter[[]byte]) error {
		return p.Release(ctx)
	},
}

// carelessRecord shows whether it is whole: a goroutine, its count, and bytes that
// follow from them.
func carelessRecord(dst []byte, goroutine, n uint64) []byte {
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst[:0], goroutine), n)
	for i := range n % 40 {
		dst = append(dst, byte(goroutine*31+n+i))
	}
	return dst
}

const carelessRounds = 2000

// runCarelessWriters is the process, which writes a line for each beginning and each
// end of a round.
func runCarelessWriters(ctx context.Context, c *Client) error {
	tell := json.NewEncoder(os.Stdout)
	for i := range carelessRounds {
		ends := []string{"close", "finish", "finish once", "fail", "release"}[i%5]
		round := carelessRound{ID: shuffle.NewPartitionID(), Ends: ends, Refused: make(map[string]uint64)}
		if err := tell.Encode(round); err != nil {
			return err
		}
		if err := round.run(ctx, c, i%2 == 0); err != nil {
			return fmt.Errorf("%s: %w", ends, err)
		}
		round.IsOver = true
		if err := tell.Encode(round); err != nil {
			return err
		}
	}
	if err := c.Close(); err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err == nil && (memseg.LiveMappings() != 0 || strings.Contains(string(maps), "memfd:")) {
		err = fmt.Errorf("mapped: %s", maps)
	}
	return err
}

// run has two goroutines write until they are told not to, by a writer or in place.
func (r *carelessRound) run(ctx context.Context, c *Client, inPlace bool) error {
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: r.ID, Subpartitions: 1})
	if err != nil {
		return err
	}
	w, err := writer.New(p, shuffle.Bytes{}, writer.Forward[[]byte]())
	if err != nil {
		return err
	}
	emit := w.Emit
	if inPlace {
		emit = func(ctx context.Context, rec []byte) error {
			dst, err := p.Reserve(ctx, 0, len(rec))
			if err != nil {
				return err
			}
			copy(dst, rec)
			return p.Commit()
		}
	}
	var mu sync.Mutex // guards Refused and Error
	var emitted atomic.Uint64
	var group sync.WaitGroup
	for g := range r.Emitted {
		group.Go(func() {
			var rec []byte
			for n := &r.Emitted[g]; ; {
				rec = carelessRecord(rec, uint64(g), *n)
				err := emit(ctx, rec)
				if err == nil {
					*n++
					emitted.Add(1)
					continue
				}
				mu.Lock()
				name := nameOf(err)
				if r.Refused[name]++; name == "" {
					r.Error = err.Error()
				}
				mu.Unlock()
				if !errors.Is(err, shuffle.ErrConcurrentUse) && !errors.Is(err, shuffle.ErrInvalidArgument) {
					return
				}
				stepAside()
			}
		})
	}
	for enough := rand.Uint64N(300); emitted.Load() < enough; {
		stepAside()
	}
	err = carelessEnds[r.Ends](ctx, p, w)
	r.Finished = err == nil && strings.HasPrefix(r.Ends, "finish")
	if errors.Is(err, shuffle.ErrConcurrentUse) {
		err = nil
	}
	err = errors.Join(err, w.Close())
	group.Wait()
	return err
}

// stepAside lets others have the processors, so that something gets done.
func stepAside() { time.Sleep(time.Duration(rand.IntN(20)) * time.Microsecond) }

// nameOf returns the sentinel of an error that careless writers may get, or nothing.
// Beside a reservation of the other one, a write is an invalid argument.
func nameOf(err error) string {
	for _, named := range []error{
		shuffle.ErrConcurrentUse, shuffle.ErrInvalidArgument, shuffle.ErrClosed, shuffle.ErrFinished,
		shuffle.ErrPartitionFailed, shuffle.ErrPartitionReleased,
	} {
		if errors.Is(err, named) {
			return named.Error()
		}
	}
	return ""
}

// check returns what is wrong with a record that is the next one of its goroutine.
func (r *carelessRound) check(rec []byte, read *[2]uint64) error {
	if len(rec) < 16 || binary.BigEndian.Uint64(rec) >= uint64(len(read)) {
		return fmt.Errorf("a record of %d bytes", len(rec))
	}
	g := binary.BigEndian.Uint64(rec)
	if want := carelessRecord(nil, g, read[g]); !bytes.Equal(want, rec) {
		return fmt.Errorf("record % x of goroutine %d, want % x", rec, g, want)
	}
	read[g]++
	return nil
}
