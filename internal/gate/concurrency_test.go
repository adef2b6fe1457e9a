package gate_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/writer"
)

// numbers is the codec of consecutive numbers, each in as many bytes as its last
// digit says and eight more.
type numbers struct{}

func (numbers) Size(n uint64) int { return 8 + int(n%10) }

func (numbers) Append(dst []byte, n uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, n)
	for range n % 10 {
		dst = append(dst, byte(n))
	}
	return dst
}

func (numbers) Decode(src []byte) (uint64, error) {
	if len(src) < 8 {
		return 0, errors.New("number is too short")
	}
	n := binary.LittleEndian.Uint64(src)
	if len(src) != 8+int(n%10) {
		return 0, fmt.Errorf("number %d in %d bytes", n, len(src))
	}
	for _, b := range src[8:] {
		if b != byte(n) {
			return 0, fmt.Errorf("number %d is spoilt", n)
		}
	}
	return n, nil
}

// The writer, its flusher and the reader meet at every word that they share.
func TestMillionRecordsBesideTheFlusher(t *testing.T) {
	for _, row := range []struct {
		memory            linktest.Memory
		segments, segment int
	}{
		{linktest.Heap, 16, 4096},
		{linktest.Mapped, 3, 32 << 10},
	} {
		t.Run(string(row.memory), func(t *testing.T) {
			const records = 1_000_000
			link := linktest.New(t, linktest.Config{Memory: row.memory, Subpartitions: 1, Segments: row.segments,
				SegmentSize: row.segment})
			gate := link.Gate(0)
			w, err := writer.New(link.Partition, numbers{}, writer.Forward[uint64](),
				writer.WithBufferTimeout(time.Millisecond))
			require.NoError(t, err)
			written := make(chan error)
			go func() {
				for n := range uint64(records) {
					if err := w.Emit(context.Background(), n); err != nil {
						written <- err
						return
					}
				}
				written <- w.Finish(context.Background())
			}()
			want := uint64(0)
			for n, err := range reader.Records(context.Background(), gate, numbers{}) {
				if err != nil || n != want {
					require.NoError(t, err)
					require.Equal(t, want, n)
				}
				want++
			}
			require.EqualValues(t, records, want)
			require.NoError(t, <-written)
			require.EqualValues(t, records, w.Counters().Records)
			require.NoError(t, w.Close())
		})
	}
}

func TestBuffersArriveWhoeverIsFaster(t *testing.T) {
	const buffers, segment = 128, 32 << 10
	pause := func(slow bool) {
		if slow {
			for range 100 {
				runtime.Gosched()
			}
		}
	}
	for _, slowProducer := range []bool{false, true} {
		for _, slowConsumer := range []bool{false, true} {
			t.Run(fmt.Sprintf("slow producer %t, slow consumer %t", slowProducer, slowConsumer), func(t *testing.T) {
				overMemories(t, func(t *testing.T, memory linktest.Memory) {
					link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 8,
						SegmentSize: segment})
					gate := link.Gate(0)
					written := make(chan error)
					go func() {
						record := make([]byte, segment)
						for n := range uint64(buffers) {
							pause(slowProducer)
							for i := 0; i < segment; i += 8 {
								binary.LittleEndian.PutUint64(record[i:], n<<32|uint64(i))
							}
							if err := link.Partition.EmitRecord(context.Background(), record, 0); err != nil {
								written <- err
								return
							}
						}
						written <- link.Partition.Finish(context.Background())
					}()
					for n := range uint64(buffers) {
						pause(slowConsumer)
						b, err := gate.Next(context.Background())
						require.NoError(t, err)
						require.Equal(t, segment, b.Len())
						for i := 0; i < segment; i += 8 {
							if v := binary.LittleEndian.Uint64(b.Bytes()[i:]); v != n<<32|uint64(i) {
								require.Equal(t, n<<32|uint64(i), v)
							}
						}
						require.NoError(t, b.Release())
					}
					b, err := gate.Next(context.Background())
					require.NoError(t, err)
					require.Equal(t, memseg.EndOfPartition, b.DataType())
					require.NoError(t, b.Release())
					_, err = gate.Next(context.Background())
					require.ErrorIs(t, err, io.EOF)
					require.NoError(t, <-written)
				})
			})
		}
	}
}
