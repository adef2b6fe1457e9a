package gate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
)

// numbered returns records that say which they are.
func numbered(n, size int) (records []string) {
	for i := range n {
		records = append(records, fmt.Sprintf("%06d", i)+string(bytes.Repeat([]byte{'.'}, size-6)))
	}
	return records
}

// Whichever way a loop is left, its buffers are given back and the next loop goes on
// with the next record.
func TestNextLoopGoesOnWithTheNextRecordHoweverTheLastOneWasLeft(t *testing.T) {
	type loop = iter.Seq2[string, error]
	leave := map[string]func(records loop, take func(string, error)) (ended bool){
		"break": func(records loop, take func(string, error)) bool {
			for rec, err := range records {
				take(rec, err)
				break
			}
			return false
		},
		"return": func(records loop, take func(string, error)) bool {
			for rec, err := range records {
				take(rec, err)
				return false
			}
			return true
		},
		"goto": func(records loop, take func(string, error)) bool {
			for rec, err := range records {
				take(rec, err)
				goto out
			}
		out:
			return false
		},
		"panic": func(records loop, take func(string, error)) bool {
			func() {
				defer func() { _ = recover() }()
				for rec, err := range records {
					take(rec, err)
					panic("in the body")
				}
			}()
			return false
		},
		"nil dereference": func(records loop, take func(string, error)) bool {
			func() {
				defer func() { _ = recover() }()
				var nothing *int
				for rec, err := range records {
					take(rec, err)
					*nothing = 1
				}
			}()
			return false
		},
		"end of the goroutine": func(records loop, take func(string, error)) bool {
			done := make(chan struct{})
			go func() {
				defer close(done)
				for rec, err := range records {
					take(rec, err)
					runtime.Goexit()
				}
			}()
			<-done
			return false
		},
		"iterator that is stopped": func(records loop, take func(string, error)) bool {
			next, stop := iter.Pull2(records)
			defer stop()
			if rec, err, ok := next(); ok {
				take(rec, err)
			}
			return false
		},
	}
	for name, leave := range leave {
		for i := range 4 {
			copies, elements := i%2 == 1, i/2 == 1
			for _, size := range []int{16, 100, 150} { // many in a segment, one, and one that spans
				t.Run(fmt.Sprintf("%s, copies %t, elements %t, size %d", name, copies, elements, size),
					func(t *testing.T) {
						records := numbered(40, size)
						link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 60,
							SegmentSize: 128})
						g := linktest.NewGate(t, linktest.Mapped, 1,
							func(s *shuffle.GateSpec) { s.CopyRecords = copies })
						g.Attach(0, link, 0)
						emitStrings(t, link, records)
						var got []string
						for len(got) < len(records) {
							before := len(got)
							records := reader.Records(context.Background(), g.InputGate, shuffle.Strings{})
							if elements {
								records = withoutChannels(reader.Elements(context.Background(), g.InputGate,
									shuffle.Strings{}))
							}
							leave(records, func(rec string, err error) {
								require.NoError(t, err)
								got = append(got, rec)
							})
							require.Len(t, got, before+1)
						}
						require.Equal(t, records, got)
						rest, err := collect(g)
						require.NoError(t, err)
						require.Empty(t, rest)
						link.Partition.Reclaim()
						require.Zero(t, link.Pool.Used(), "nothing is kept")
					})
			}
		}
	}
}

// withoutChannels is the records among elements.
func withoutChannels[T any](elements iter.Seq2[reader.Element[T], error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for e, err := range elements {
			if e.Event == nil && !yield(e.Record, err) {
				return
			}
		}
	}
}

// emitStrings writes framed records and finishes.
func emitStrings(t testing.TB, link *linktest.Link, records []string) {
	t.Helper()
	for _, rec := range records {
		framed := append([]byte{0, 0, byte(len(rec) >> 8), byte(len(rec))}, rec...)
		require.NoError(t, link.Partition.EmitRecord(context.Background(), framed, 0))
	}
	finish(t, link)
}

// brittle panics, or ends its goroutine, on some records.
type brittle struct {
	shuffle.Strings
	on func(rec string)
}

func (b brittle) Decode(src []byte) (string, error) {
	b.on(string(src))
	return string(src), nil
}

func TestPanicOfTheCodecIsAnErrorAndCostsThatRecordOnly(t *testing.T) {
	for _, size := range []int{16, 150} {
		for name, p := range map[string]any{"text": "spoilt", "error": io.EOF, "own": shuffle.ErrProducerLost} {
			t.Run(fmt.Sprintf("%s, size %d", name, size), func(t *testing.T) {
				records := numbered(20, size)
				link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 60,
					SegmentSize: 128})
				g := linktest.NewGate(t, linktest.Mapped, 1)
				g.Attach(0, link, 0)
				emitStrings(t, link, records)
				codec := brittle{on: func(rec string) {
					if rec == records[7] {
						panic(p)
					}
				}}
				var got []string
				var errs []error
				for range 3 {
					for rec, err := range reader.Records(context.Background(), g.InputGate, codec) {
						if err != nil {
							errs = append(errs, err)
							continue
						}
						got = append(got, rec)
					}
				}
				require.Equal(t, append(records[:7:7], records[8:]...), got)
				require.Len(t, errs, 3)
				for i, err := range errs {
					require.ErrorIs(t, err, shuffle.ErrCorruptRecord)
					require.ErrorContains(t, err, fmt.Sprintf("the codec panicked: %v", p))
					require.NotErrorIs(t, err, io.EOF)
					require.NotErrorIs(t, err, shuffle.ErrProducerLost)
					require.Equal(t, i > 0, errors.Is(err, shuffle.ErrIncomplete))
					var told *shuffle.ChannelError
					require.ErrorAs(t, err, &told)
					require.Equal(t, i > 0, told.Ended, "at the end nothing more comes")
				}
			})
		}
	}
}

func TestCodecThatEndsItsGoroutineLosesThatRecordOnly(t *testing.T) {
	for _, size := range []int{16, 150} {
		records := numbered(10, size)
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 60,
			SegmentSize: 128})
		g := linktest.NewGate(t, linktest.Mapped, 1)
		g.Attach(0, link, 0)
		emitStrings(t, link, records)
		codec := brittle{on: func(rec string) {
			if rec == records[3] {
				runtime.Goexit()
			}
		}}
		var got []string
		for range 2 {
			done := make(chan error)
			go func() {
				var err error
				defer func() { done <- err }()
				for rec, loopErr := range reader.Records(context.Background(), g.InputGate, codec) {
					if err = loopErr; err != nil {
						return
					}
					got = append(got, rec)
				}
			}()
			require.NoError(t, <-done)
		}
		require.Equal(t, append(records[:3:3], records[4:]...), got)
		link.Partition.Reclaim()
		require.Zero(t, link.Pool.Used())
	}
}

// What the code of a user returns may come from another stream.
func TestErrorOfTheCodecIsNoEndOfThisStream(t *testing.T) {
	_, g, link := newPipe(t, linktest.Heap, shuffle.Strings{}, 64, 1000)
	emitStrings(t, link, []string{"one"})
	err := error(nil)
	for _, err = range reader.Records(context.Background(), g.InputGate,
		failing{fmt.Errorf("nested: %w", errors.Join(io.EOF, shuffle.ErrPartitionExpired))}) {
		require.Error(t, err)
	}
	require.NotErrorIs(t, err, io.EOF)
	require.NotErrorIs(t, err, shuffle.ErrPartitionExpired)
	require.ErrorIs(t, err, shuffle.ErrCorruptRecord)
	require.ErrorContains(t, err, "nested: EOF")
	_, err = collect(g)
	require.ErrorIs(t, err, shuffle.ErrIncomplete)
	requireIncomplete(t, g, shuffle.ErrCorruptRecord)
}

type failing struct{ err error }

func (failing) Size(string) int                     { return 0 }
func (failing) Append(dst []byte, _ string) []byte  { return dst }
func (f failing) Decode(src []byte) (string, error) { return "", f.err }

// foreignGate returns a gate over a copy of a link's memory that can be taken away.
func foreignGate(t *testing.T, link *linktest.Link, change ...func(*shuffle.GateSpec)) (g *linktest.Gate,
	takeAway func(from int)) {
	t.Helper()
	memfd, err := memseg.CreateMemfd("foreign", int64(link.Region().Size()))
	require.NoError(t, err)
	region, err := memfd.Map(memseg.ReadWrite, 0)
	require.NoError(t, err)
	copy(region.Bytes(), link.Region().Bytes())
	g = linktest.NewGate(t, linktest.Mapped, 1, change...)
	bell := memseg.NewHeapRegion("doorbell", int(memseg.DoorbellSize(1)))
	view, err := partition.NewSubpartitionView(region, link.Layout, bell, 0, g.ChannelWords(0), nil)
	require.NoError(t, err)
	g.AttachChannel(0, view)
	t.Cleanup(func() {
		_ = g.Close()
		require.NoError(t, region.Close())
		require.NoError(t, memfd.Close())
	})
	return g, func(from int) {
		from = from / unix.Getpagesize() * unix.Getpagesize()
		require.NoError(t, unix.Mprotect(region.Bytes()[from:], unix.PROT_NONE))
	}
}

// The memory goes away under a loop, in different places.
func TestFaultUnderALoopIsTheErrorOfItsChannel(t *testing.T) {
	const segment = 64 << 10
	newLink := func(t *testing.T) *linktest.Link {
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 8,
			SegmentSize: segment})
		emitStrings(t, link, numbered(300, 1000))
		return link
	}
	t.Run("between records", func(t *testing.T) {
		link := newLink(t)
		g, takeAway := foreignGate(t, link)
		var got int
		var err error
		for _, err = range reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}) {
			if err != nil {
				break
			}
			if got++; got == 1 {
				takeAway(int(link.Layout.SegmentOffset(0)) + 8192)
			}
		}
		require.ErrorIs(t, err, memseg.ErrFault)
		require.Positive(t, got)
		require.Less(t, got, 20)
		requireIncomplete(t, g, memseg.ErrFault)
	})
	t.Run("in the codec", func(t *testing.T) {
		link := newLink(t)
		g, takeAway := foreignGate(t, link)
		codec := reading{before: func() { takeAway(int(link.Layout.SegmentOffset(0))) }}
		var err error
		for _, err = range reader.Records(context.Background(), g.InputGate, codec) {
			require.Error(t, err)
		}
		require.ErrorIs(t, err, memseg.ErrFault)
		requireIncomplete(t, g, memseg.ErrFault)
	})
	t.Run("in the body", func(t *testing.T) {
		link := newLink(t)
		g, takeAway := foreignGate(t, link)
		fault := func() (fault any) {
			defer func() { fault = recover() }()
			for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}) {
				require.NoError(t, err)
				takeAway(int(link.Layout.SegmentOffset(0)))
				_ = bytes.Clone(rec) // a panic of the body, which may recover it
			}
			return nil
		}()
		require.Implements(t, (*interface{ Addr() uintptr })(nil), fault)
		requireIncomplete(t, g, memseg.ErrFault)
	})
	t.Run("in a later buffer, whatever the body has set", func(t *testing.T) {
		link := newLink(t)
		g, takeAway := foreignGate(t, link)
		for _, before := range []bool{true, false} {
			debug.SetPanicOnFault(before)
			var got int
			var err error
			for _, err = range reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}) {
				if err != nil {
					break
				}
				if debug.SetPanicOnFault(false); got == 0 {
					takeAway(int(link.Layout.SegmentOffset(1)))
				}
				got++
			}
			require.ErrorIs(t, err, memseg.ErrFault)
			if before {
				require.Equal(t, segment/1004, got, "those of the first buffer")
			}
			require.Equal(t, before, debug.SetPanicOnFault(false), "the loop leaves it as it was")
		}
		requireIncomplete(t, g, memseg.ErrFault)
	})
	t.Run("a copy is not concerned", func(t *testing.T) {
		link := newLink(t)
		g, takeAway := foreignGate(t, link, func(s *shuffle.GateSpec) { s.CopyRecords = true })
		var got int
		var err error
		for rec, loopErr := range reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}) {
			if err = loopErr; err != nil {
				break
			}
			if got == 0 {
				takeAway(0)
			}
			require.Equal(t, fmt.Sprintf("%06d", got), string(rec[:6]))
			got++
		}
		require.ErrorIs(t, err, memseg.ErrFault)
		require.Equal(t, segment/1004, got, "the rest of the buffer")
		requireIncomplete(t, g, memseg.ErrFault)
	})
}

// reading reads all of a record.
type reading struct {
	shuffle.Strings
	before func()
}

func (r reading) Decode(src []byte) (string, error) {
	r.before()
	return r.Strings.Decode(src)
}

// A codec may look at a byte twice, and a producer change it in between.
func TestCopyOfARecordIsNotChangedUnderTheCodec(t *testing.T) {
	for _, copies := range []bool{false, true} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 4,
			SegmentSize: 128})
		g := linktest.NewGate(t, linktest.Mapped, 1, func(s *shuffle.GateSpec) { s.CopyRecords = copies })
		g.Attach(0, link, 0)
		emitStrings(t, link, []string{"index 3", "index 3"})
		shared := link.Region().Bytes()[link.Layout.SegmentOffset(0):]
		codec := checksThenUses{change: func() { shared[4+6] = '9' }}
		var got []string
		var err error
		for rec, loopErr := range reader.Records(context.Background(), g.InputGate, codec) {
			if err = loopErr; err != nil {
				break
			}
			got = append(got, rec)
		}
		if copies {
			require.NoError(t, err)
			require.Equal(t, []string{"d", "d"}, got)
			continue
		}
		require.ErrorIs(t, err, shuffle.ErrCorruptRecord)
		require.ErrorContains(t, err, "the codec panicked: runtime error: index out of range [9] with length 4")
		require.Empty(t, got)
	}
}

type checksThenUses struct {
	shuffle.Strings
	change func()
}

func (c checksThenUses) Decode(src []byte) (string, error) {
	table := []string{"a", "b", "c", "d"}
	if int(src[6]-'0') >= len(table) {
		return "", errors.New("index out of range")
	}
	c.change()
	return table[src[6]-'0'], nil
}
