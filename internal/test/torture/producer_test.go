package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shuffled/client"
	"shuffled/shuffle"
	"shuffled/writer"
)

// The ways in which a producer writes.
const (
	emitting     = "emit"
	reserving    = "reserve"
	broadcasting = "broadcast"
)

// A producerPlan is what a producer process is to do.
type producerPlan struct {
	Partition shuffle.PartitionID
	Streams   []stream // by subpartition
	// Records is how many go to each subpartition.
	Records uint64
	Mode    string
	// FloatingBuffers and Discard become those of the spec.
	FloatingBuffers int
	Discard         bool
	// Timeout is that of the output flusher.
	Timeout time.Duration
	// FlushEvery is how many records go between flushes, after which the producer
	// reports what is committed.
	FlushEvery uint64
	// HoldAt is the record before whose commit the producer stops for ever; 0 is
	// none.
	HoldAt uint64
}

// produce carries the plan out.
func produce(ctx context.Context, plan producerPlan, tell func(event)) error {
	c, err := client.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	spec := shuffle.PartitionSpec{
		ID: plan.Partition, Name: fmt.Sprintf("torture/%d", plan.Streams[0].Producer), Subpartitions: len(plan.Streams),
		FloatingBuffers: plan.FloatingBuffers,
	}
	if plan.Discard {
		spec.OnConsumerLost = shuffle.DiscardOnConsumerLost
	}
	p, err := c.CreatePartition(ctx, spec)
	if err != nil {
		return err
	}
	tell(event{Kind: created})
	sink, err := newSink(plan, p)
	if err != nil {
		return err
	}
	err = plan.write(ctx, sink, tell)
	if err == nil {
		err = sink.finish(ctx)
	}
	if errors.Is(err, shuffle.ErrConsumerLost) {
		err = errors.Join(err, sink.fail(ctx, errors.New("a consumer of this partition is gone")))
	}
	return errors.Join(err, sink.close())
}

// write writes all records.
func (plan *producerPlan) write(ctx context.Context, sink sink, tell func(event)) error {
	for seq := range plan.Records {
		if err := sink.write(ctx, seq); err != nil {
			return err
		}
		if plan.HoldAt == seq+1 {
			if err := sink.hold(ctx, seq+1); err != nil {
				return err
			}
			tell(event{Kind: holding})
			select {} // until killed
		}
		if (seq+1)%plan.FlushEvery == 0 {
			if err := sink.flush(); err != nil {
				return err
			}
			tell(event{Kind: committed, Records: seq + 1})
		}
	}
	return nil
}

// A sink writes the records of a sequence number to all subpartitions.
type sink interface {
	write(ctx context.Context, seq uint64) error
	// hold begins to write a record and does not commit it.
	hold(ctx context.Context, seq uint64) error
	flush() error
	finish(ctx context.Context) error
	fail(ctx context.Context, cause error) error
	close() error
}

func newSink(plan producerPlan, p shuffle.ResultPartition) (sink, error) {
	if plan.Mode == reserving {
		return &reservingSink{p, plan.Streams}, nil
	}
	// The selector is not asked: each record has its subpartition.
	w, err := writer.New(p, shuffle.Bytes{}, writer.Rebalance[[]byte](), writer.WithBufferTimeout(plan.Timeout))
	return &emittingSink{w: w, partition: p, streams: plan.Streams, broadcast: plan.Mode == broadcasting}, err
}

// An emittingSink goes through a RecordWriter.
type emittingSink struct {
	w         *writer.RecordWriter[[]byte]
	partition shuffle.ResultPartition
	streams   []stream
	broadcast bool
	scratch   []byte
}

func (s *emittingSink) record(sub int, seq uint64) []byte {
	size := s.streams[sub].size(seq)
	if cap(s.scratch) < size {
		s.scratch = make([]byte, size)
	}
	b := s.scratch[:size]
	s.streams[sub].fill(b, seq)
	return b
}

func (s *emittingSink) write(ctx context.Context, seq uint64) error {
	if s.broadcast {
		return s.w.Broadcast(ctx, s.record(0, seq))
	}
	for sub := range s.streams {
		if err := s.w.EmitTo(ctx, s.record(sub, seq), sub); err != nil {
			return err
		}
	}
	return nil
}

func (s *emittingSink) hold(ctx context.Context, seq uint64) error { return s.write(ctx, seq) }
func (s *emittingSink) flush() error                               { return s.w.Flush() }
func (s *emittingSink) finish(ctx context.Context) error           { return s.w.Finish(ctx) }
func (s *emittingSink) close() error                               { return s.w.Close() }

func (s *emittingSink) fail(ctx context.Context, cause error) error { return s.w.Fail(ctx, cause) }

// A reservingSink fills records in place.
type reservingSink struct {
	p       shuffle.ResultPartition
	streams []stream
}

func (s *reservingSink) write(ctx context.Context, seq uint64) error {
	for sub := range s.streams {
		b, err := s.p.Reserve(ctx, sub, s.streams[sub].size(seq))
		if err != nil {
			return err
		}
		s.streams[sub].fill(b, seq)
		if err := s.p.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func (s *reservingSink) hold(ctx context.Context, seq uint64) error {
	b, err := s.p.Reserve(ctx, 0, s.streams[0].size(seq))
	for i := range b {
		b[i] = 0xee // nobody may ever see this
	}
	return err
}

func (s *reservingSink) flush() error                                { return s.p.FlushAll() }
func (s *reservingSink) finish(ctx context.Context) error            { return s.p.Finish(ctx) }
func (s *reservingSink) fail(ctx context.Context, cause error) error { return s.p.Fail(ctx, cause) }
func (s *reservingSink) close() error                                { return s.p.Close() }
