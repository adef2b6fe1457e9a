package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"shuffled/bench/results"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A scaleExchange is many partitions of one subpartition, each with its gate. The
// producer has them all, and so has the consumer.
//
// The consumer opens all gates and says so by a byte in a pipe. Then the producer
// creates one partition after the other, with a record in each, and waits for a
// byte after each, which says that the record is there. When all are attached,
// both begin: a second record goes through each, and all are closed.
type scaleExchange struct {
	Exchange   Exchange
	Partitions int
}

func (e *scaleExchange) name(i int) string { return fmt.Sprintf("%s/%d", e.Exchange.Name, i) }

func (e *scaleExchange) id(i int) shuffle.PartitionID { return shuffle.NamedPartitionID(e.name(i)) }

// scaleTurns is how many records go through each partition.
const scaleTurns = 2

// scaleInputTimeout is how long a gate may wait for its partition.
const scaleInputTimeout = 10 * time.Minute

// A scale record has its partition, its turn and the time when the partition was
// asked for, by the machine's monotonic clock, little-endian, and a pattern.
const (
	scaleRecordSize = 100
	scaleHeader     = 24
)

func scaleRecord(partition, turn int, asked time.Duration) []byte {
	record := binary.LittleEndian.AppendUint64(nil, uint64(partition))
	record = binary.LittleEndian.AppendUint64(record, uint64(turn))
	record = binary.LittleEndian.AppendUint64(record, uint64(asked))
	return append(record, scaleBody...)
}

var scaleBody = pattern(stampSize + scaleRecordSize - scaleHeader)

// checkScaleRecord returns when the partition was asked for, or ErrContent.
func checkScaleRecord(record []byte, partition, turn int) (asked time.Duration, err error) {
	if len(record) != scaleRecordSize {
		return 0, fmt.Errorf("record %d of partition %d has %d bytes, want %d: %w", turn, partition, len(record),
			scaleRecordSize, ErrContent)
	}
	le := binary.LittleEndian
	if p, t := le.Uint64(record), le.Uint64(record[8:]); p != uint64(partition) || t != uint64(turn) {
		return 0, fmt.Errorf("record %d of partition %d is number %d of partition %d: %w", turn, partition, t, p,
			ErrContent)
	}
	if !bytes.Equal(record[scaleHeader:], scaleBody) {
		return 0, fmt.Errorf("record %d of partition %d differs from its pattern: %w", turn, partition, ErrContent)
	}
	return time.Duration(le.Uint64(record[16:])), nil
}

// A scaleProducer has all partitions.
type scaleProducer struct {
	Scale        scaleExchange
	FlushTimeout time.Duration
	Fault        Fault
}

func (p *scaleProducer) run(ctx context.Context, w *workerContext) (res result, err error) {
	files, err := openStreams(1)
	if err != nil {
		return res, err
	}
	defer files[0].Close()
	c, disconnect, err := p.Scale.Exchange.connect(ctx, "producer")
	if err != nil {
		return res, err
	}
	defer disconnect()
	if err := awaitByte(files[0]); err != nil {
		return res, err
	}
	created := newLatencies()
	var writers []*writer.RecordWriter[[]byte]
	defer func() {
		for _, out := range writers {
			err = cmp.Or(err, out.Close())
		}
	}()
	for i := range p.Scale.Partitions {
		asked := monotonicNow()
		partition, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: p.Scale.id(i), Name: p.Scale.name(i),
			Subpartitions: 1})
		if err != nil {
			return res, err
		}
		created.record(monotonicNow() - asked)
		out, err := writer.New(partition, shuffle.Bytes{}, writer.Forward[[]byte](),
			writer.WithBufferTimeout(p.FlushTimeout))
		if err != nil {
			return res, errors.Join(err, partition.Close())
		}
		writers = append(writers, out)
		if err := emitNow(ctx, out, scaleRecord(i, 0, asked)); err != nil {
			return res, err
		}
		if err := awaitByte(files[0]); err != nil {
			return res, err
		}
	}
	if err := w.begin(); err != nil {
		return res, err
	}
	if p.Fault == DieProducing {
		die()
	}
	for i, out := range writers {
		record := scaleRecord(i, 1, 0)
		if p.Fault == FlipByte && i == len(writers)-1 {
			record[scaleRecordSize-1] ^= 0x10
		}
		if err := emitNow(ctx, out, record); err != nil {
			return res, err
		}
	}
	for _, out := range writers {
		if err := out.Finish(ctx); err != nil {
			return res, err
		}
	}
	res.Records = int64(scaleTurns * len(writers))
	res.Figures = results.Round{results.CreateP50: float64(created.at(50)), results.CreateP99: float64(created.at(99))}
	return res, nil
}

// awaitByte waits for the consumer.
func awaitByte(r io.Reader) error {
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		return fmt.Errorf("wait for the consumer: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}

// emitNow emits a record that its consumer is to get at once.
func emitNow(ctx context.Context, out *writer.RecordWriter[[]byte], record []byte) error {
	if err := out.Emit(ctx, record); err != nil {
		return err
	}
	return out.Flush()
}

// A scaleConsumer has a gate for each partition, and a goroutine for each gate.
type scaleConsumer struct {
	Scale scaleExchange
	Fault Fault
}

// A scaleReading is what the goroutines of a scaleConsumer share.
type scaleReading struct {
	pipe *os.File
	w    *workerContext

	mu       sync.Mutex
	attached *latencies
	records  int64
	all      chan struct{} // closed when all gates have had a record
	gates    int
}

func (p *scaleConsumer) run(ctx context.Context, w *workerContext) (res result, err error) {
	files, err := openStreams(1)
	if err != nil {
		return res, err
	}
	defer files[0].Close()
	c, disconnect, err := p.Scale.Exchange.connect(ctx, "consumer")
	if err != nil {
		return res, err
	}
	defer disconnect()
	var gates []shuffle.InputGate
	defer func() {
		for _, gate := range gates {
			err = cmp.Or(err, gate.Close())
		}
	}()
	opened := newLatencies()
	for i := range p.Scale.Partitions {
		start := monotonicNow()
		gate, err := c.OpenGate(ctx, shuffle.GateSpec{
			Name: p.Scale.name(i), Inputs: []shuffle.Input{{Partition: p.Scale.id(i)}}, Timeout: scaleInputTimeout,
		})
		if err != nil {
			return res, err
		}
		opened.record(monotonicNow() - start)
		gates = append(gates, gate)
	}
	r := &scaleReading{pipe: files[0], w: w, attached: newLatencies(), all: make(chan struct{}), gates: len(gates)}
	if err := r.read(ctx, gates, p.Fault); err != nil {
		return res, err
	}
	res.Records = r.records
	res.Figures = results.Round{
		results.OpenP50: float64(opened.at(50)), results.OpenP99: float64(opened.at(99)),
		results.AttachP50: float64(r.attached.at(50)), results.AttachP99: float64(r.attached.at(99)),
	}
	return res, nil
}

// read reads all gates to their ends.
func (r *scaleReading) read(ctx context.Context, gates []shuffle.InputGate, fault Fault) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers sync.WaitGroup
	for i, gate := range gates {
		readers.Go(func() {
			if err := r.readGate(ctx, i, gate); err != nil {
				cancel(err)
			}
		})
	}
	err := r.tell()
	select {
	case <-r.all:
		err = cmp.Or(err, r.w.begin())
	case <-ctx.Done():
	}
	if fault == DieConsuming {
		die()
	}
	if err != nil {
		cancel(err)
	}
	readers.Wait()
	return context.Cause(ctx)
}

// tell lets the producer go on.
func (r *scaleReading) tell() error {
	if _, err := r.pipe.Write([]byte{1}); err != nil {
		return fmt.Errorf("tell the producer: %w", err)
	}
	return nil
}

func (r *scaleReading) readGate(ctx context.Context, partition int, gate shuffle.InputGate) error {
	turn := 0
	for record, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
		now := monotonicNow()
		if err != nil {
			return err
		}
		asked, err := checkScaleRecord(record, partition, turn)
		if err != nil {
			return err
		}
		if err := r.note(turn, now-asked); err != nil {
			return err
		}
		turn++
	}
	if turn != scaleTurns {
		return fmt.Errorf("partition %d ended after %d of %d records: %w", partition, turn, scaleTurns, ErrContent)
	}
	return nil
}

// note counts a record that was right, and the latency if it was the first.
func (r *scaleReading) note(turn int, latency time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records++
	r.w.done.bytes.Store(r.records * scaleRecordSize)
	if turn > 0 {
		return nil
	}
	r.attached.record(latency)
	if r.attached.count() == int64(r.gates) {
		close(r.all)
	}
	return r.tell()
}
