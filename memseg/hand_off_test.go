package memseg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
)

func init() { children["hand-offs"] = handOffChild }

// A handOffSide is one of two processes, or of two goroutines: it produces one
// stream and consumes the other.
type handOffSide struct {
	out *handOffProducer
	in  *handOffConsumer
}

// pingPong exchanges records one by one; the side that is first begins. Each is
// a hand-off: its receiver has nothing to do before it comes.
func (s *handOffSide) pingPong(n uint64, first bool) error {
	var b Buffer
	for i := range n {
		if first == (i%2 == 0) {
			if err := s.out.write(i, true); err != nil {
				return fmt.Errorf("write record %d: %w", i, err)
			}
			s.out.words.Records.Store(i + 1)
			continue
		}
		if err := s.in.next(&b, 0); err != nil {
			return fmt.Errorf("read record %d: %w", i, err)
		}
		got := append([]byte(nil), b.Bytes()...)
		if err := b.Release(); err != nil {
			return err
		}
		if len(got) != 8 || binary.LittleEndian.Uint64(got) != i {
			return fmt.Errorf("read %x, want record %d", got, i)
		}
	}
	return nil
}

// stream sends records from the first side to the other as fast as the two
// segments allow, so that both park, with a flush or an event now and then.
func (s *handOffSide) stream(n uint64, first bool, random *rand.Rand) error {
	if first {
		for i := range n {
			if err := s.out.write(i, random.IntN(16) == 0); err != nil {
				return fmt.Errorf("write record %d: %w", i, err)
			}
			if random.IntN(64) == 0 {
				if err := s.out.event(EventBuffer, []byte("event")); err != nil {
					return fmt.Errorf("write event after record %d: %w", i, err)
				}
			}
			s.out.words.Records.Store(i + 1)
		}
		return s.out.event(EndOfPartition, []byte("end"))
	}
	var b Buffer
	for i := uint64(0); ; {
		if err := s.in.next(&b, uint64(random.IntN(3)*20)); err != nil {
			return fmt.Errorf("read record %d: %w", i, err)
		}
		typ := b.DataType()
		for rest := b.Bytes(); typ == DataBuffer && len(rest) > 0; i++ {
			if len(rest) < 8 || binary.LittleEndian.Uint64(rest) != i {
				return fmt.Errorf("read %x, want record %d", rest, i)
			}
			rest = rest[8:]
		}
		if err := b.Release(); err != nil {
			return err
		}
		if typ == EndOfPartition {
			if i != n {
				return fmt.Errorf("the end came after %d of %d records", i, n)
			}
			return nil
		}
	}
}

func (s *handOffSide) run(mode string, n uint64, first bool, random *rand.Rand) error {
	if mode == "ping-pong" {
		return s.pingPong(n, first)
	}
	return s.stream(n, first, random)
}

func newHandOffSide(out, in *handOffLink, aborted *atomic.Bool, jitter func()) (*handOffSide, error) {
	p, outErr := newHandOffProducer(out, aborted, jitter)
	c, inErr := newHandOffConsumer(in, aborted, jitter)
	return &handOffSide{p, c}, errors.Join(outErr, inErr)
}

// handOffs is how many hand-offs a test makes.
func handOffs(t *testing.T, usual int) uint64 {
	if s := os.Getenv("SHUFFLED_HANDOFFS"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		return n
	}
	if testing.Short() || accessesAreSlow {
		usual /= 10
	}
	return uint64(usual)
}

// watch waits for the sides to finish. If nothing moves for long, it shows all
// words, which say what is waited for, and has the sides give up.
func watch(t *testing.T, links [2]*handOffLink, aborted *atomic.Bool, sides int, results <-chan error) {
	t.Helper()
	moved := func() (sum uint64) {
		for _, k := range links {
			l, err := DecodePartitionHeader(k.partition.Bytes(), int64(k.partition.Size()))
			require.NoError(t, err)
			q := NewQueueReader(k.partition, &l, 0)
			sum += q.Position() + q.Flushed() + NewPartitionWords(k.partition).Records.Load()
			sum += NewChannelWords(k.gate, &GateLayout{Channels: handOffChannels}, handOffChannel).Released.Load()
		}
		return sum
	}
	last, since := moved(), time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for sides > 0 {
		select {
		case err := <-results:
			require.NoError(t, err)
			sides--
		case <-tick.C:
			if now := moved(); now != last {
				last, since = now, time.Now()
			} else if time.Since(since) > handOffQuiet {
				t.Errorf("nothing moves:\n%s%s", links[0].dump("first to second"), links[1].dump("second to first"))
				aborted.Store(true)
				for _, k := range links {
					(&Doorbell{futex: k.partitionBell.Word32(doorbellFutex)}).Wake()
					(&Doorbell{futex: k.gateBell.Word32(doorbellFutex)}).Wake()
				}
				for range sides {
					<-results
				}
				t.FailNow()
			}
		}
	}
}

// heapLinks returns both links in heap memory.
func heapLinks(t *testing.T) (links [2]*handOffLink) {
	l, g, err := handOffLayouts()
	require.NoError(t, err)
	for i := range links {
		links[i] = &handOffLink{}
		for j, object := range links[i].objects() {
			*object = NewHeapRegion("hand-off", int(handOffSizes(&l, &g)[j]))
		}
		copy(links[i].partition.Bytes(), l.EncodeHeader())
		copy(links[i].gate.Bytes(), g.EncodeHeader())
		words, offset := g.InitialChannelWords(handOffChannel, l.FirstOrdinal)
		copy(links[i].gate.Bytes()[offset:], words)
	}
	return links
}

var handOffModes = []string{"ping-pong", "stream"}

var (
	// yieldAtAccesses has goroutines yield at random before accesses to shared words
	// until the returned function is called. Only builds with a Scheduler can.
	yieldAtAccesses = func() (stop func()) { return func() {} }
	// accessesAreSlow is true in those builds.
	accessesAreSlow = false
)

func TestHandOffsBetweenGoroutines(t *testing.T) {
	defer yieldAtAccesses()()
	for _, mode := range handOffModes {
		t.Run(mode, func(t *testing.T) {
			random := newRandom(t)
			n := handOffs(t, 50_000)
			links := heapLinks(t)
			var aborted atomic.Bool
			results := make(chan error, 2)
			var sides [2]*handOffSide
			for i := range sides {
				// Between any two steps: go on, let the other run, or take a while.
				mine := rand.New(rand.NewPCG(random.Uint64(), 0))
				jitter := func() {
					switch r := mine.IntN(64); {
					case r < 8:
						runtime.Gosched()
					case r < 12:
						for range mine.IntN(300) {
							_ = aborted.Load()
						}
					}
				}
				var err error
				sides[i], err = newHandOffSide(links[i], links[1-i], &aborted, jitter)
				require.NoError(t, err)
			}
			begin := time.Now()
			for i, s := range sides {
				seed := random.Uint64()
				go func() { results <- s.run(mode, n, i == 0, rand.New(rand.NewPCG(seed, 0))) }()
			}
			watch(t, links, &aborted, 2, results)
			logHandOffs(t, n, begin, sides[0], sides[1])
		})
	}
}

func logHandOffs(t *testing.T, n uint64, begin time.Time, sides ...*handOffSide) {
	took := time.Since(begin)
	for _, s := range sides {
		t.Logf("parked %d times as consumer and %d times as producer", s.in.parks, s.out.parks)
	}
	t.Logf("%d records in %v, %v each", n, took.Round(time.Millisecond), took/time.Duration(n))
}

func TestParkedHandOffs(t *testing.T) {
	for _, mode := range handOffModes {
		t.Run(mode, func(t *testing.T) {
			leaktest.Check(t)
			n := handOffs(t, 200_000)
			seed := newRandom(t).Uint64()
			l, g, err := handOffLayouts()
			require.NoError(t, err)

			cmd := childCommand(t, "hand-offs", "SHUFFLED_MODE="+mode, "SHUFFLED_COUNT="+strconv.FormatUint(n, 10),
				"SHUFFLED_SEED="+strconv.FormatUint(seed, 10))
			var links [2]*handOffLink
			var aborted atomic.Bool
			for i := range links {
				links[i] = &handOffLink{}
				var objects [4]*Memfd
				for j, size := range handOffSizes(&l, &g) {
					m, err := CreateMemfd("hand-off", size)
					require.NoError(t, err)
					objects[j] = m
				}
				require.NoError(t, objects[0].WriteAt(l.EncodeHeader(), 0))
				require.NoError(t, objects[2].WriteAt(g.EncodeHeader(), 0))
				words, offset := g.InitialChannelWords(handOffChannel, l.FirstOrdinal)
				require.NoError(t, objects[2].WriteAt(words, offset))
				for j, m := range objects {
					region, err := m.Map(handOffAccess(0, i, j), 0)
					require.NoError(t, err)
					fd, err := m.HandOut()
					require.NoError(t, err)
					cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), "hand-off"))
					require.NoError(t, m.Close())
					*links[i].objects()[j] = region
					defer func() { require.NoError(t, region.Close()) }()
				}
			}
			side, err := newHandOffSide(links[0], links[1], &aborted, func() {})
			require.NoError(t, err)
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			for _, file := range cmd.ExtraFiles {
				require.NoError(t, file.Close())
			}
			// A consumer attaches once the producer's words have their first values.
			_, err = io.ReadFull(stdout, make([]byte, len(handOffReady)))
			require.NoError(t, err)
			begin := time.Now()
			results := make(chan error, 2)
			go func() {
				err := side.run(mode, n, true, rand.New(rand.NewPCG(seed, 0)))
				if err != nil {
					_ = cmd.Process.Kill()
				}
				results <- err
			}()
			go func() {
				err := cmd.Wait()
				if err != nil { // nobody will answer
					aborted.Store(true)
					side.out.bell.Wake()
					side.in.bell.Wake()
				}
				results <- err
			}()
			watch(t, links, &aborted, 2, results)
			logHandOffs(t, n, begin, side)
		})
	}
}

const handOffReady = "ready"

// handOffAccess is how a side maps the j-th object of the i-th link: what it owns
// and doorbells for writing, the rest for reading.
func handOffAccess(side, i, j int) Access {
	const partition, gate = 0, 2
	if j == partition && i != side || j == gate && i == side {
		return ReadOnly
	}
	return ReadWrite
}

// handOffChild is the second side: its descriptors begin at 3.
func handOffChild() error {
	l, g, err := handOffLayouts()
	if err != nil {
		return err
	}
	n, countErr := strconv.ParseUint(os.Getenv("SHUFFLED_COUNT"), 10, 64)
	seed, seedErr := strconv.ParseUint(os.Getenv("SHUFFLED_SEED"), 10, 64)
	if err := errors.Join(countErr, seedErr); err != nil {
		return err
	}
	var links [2]*handOffLink
	for i := range links {
		links[i] = &handOffLink{}
		for j, size := range handOffSizes(&l, &g) {
			m, err := ReceiveMemfd(3+4*i+j, size, "hand-off")
			if err != nil {
				return err
			}
			region, err := m.Map(handOffAccess(1, i, j), 0)
			if err != nil {
				return err
			}
			*links[i].objects()[j] = region
		}
	}
	var aborted atomic.Bool
	side, err := newHandOffSide(links[1], links[0], &aborted, func() {})
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString(handOffReady); err != nil {
		return err
	}
	return side.run(os.Getenv("SHUFFLED_MODE"), n, false, rand.New(rand.NewPCG(seed, 0)))
}
