package memseg_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/memseg"
)

// segmentKind is a way to come by the memory of a segment; every kind must
// behave the same.
type segmentKind struct {
	name  string
	alloc func(t testing.TB, size int) []byte
}

var segmentKinds = []segmentKind{
	{"heap", func(_ testing.TB, size int) []byte { return make([]byte, size) }},
	{"mmap", mapBeforeGuardPage},
}

func (k segmentKind) segment(t testing.TB, size int) *memseg.MemorySegment {
	return memseg.NewSegment(k.alloc(t, size), 0, nil)
}

// mapBeforeGuardPage returns size mapped bytes that end where an inaccessible
// page begins, so that an access past the end faults.
func mapBeforeGuardPage(t testing.TB, size int) []byte {
	page := os.Getpagesize()
	usable := (size + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, usable+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(mem)) })
	require.NoError(t, unix.Mprotect(mem[usable:], unix.PROT_NONE))
	return mem[usable-size : usable]
}

var pageSizes = []int{4 << 10, 32 << 10, 512 << 10}

func forEachKind(t *testing.T, f func(t *testing.T, kind segmentKind)) {
	for _, kind := range segmentKinds {
		t.Run(kind.name, func(t *testing.T) { f(t, kind) })
	}
}

func forEachKindAndPage(t *testing.T, f func(t *testing.T, kind segmentKind, page int)) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		for _, page := range pageSizes {
			t.Run(fmt.Sprintf("%dKiB", page>>10), func(t *testing.T) { f(t, kind, page) })
		}
	})
}

// newSeed prints the seed of a random test; SHUFFLED_SEED repeats a run.
func newSeed(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("SHUFFLED_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("SHUFFLED_SEED=%d", seed)
	return seed
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// scalar is one width and byte order of access, with its values as raw bits.
// The order tells what the bytes must look like, independently of the segment.
type scalar struct {
	name  string
	width int
	get   func(s *memseg.MemorySegment, index int) (bits uint64, err error)
	put   func(s *memseg.MemorySegment, index int, bits uint64) error
	order binary.ByteOrder
}

// encode returns the bytes that put must have stored.
func (a scalar) encode(bits uint64) []byte {
	b := make([]byte, 8)
	switch {
	case a.name == "bool":
		b[0] = byte(bits & 1)
	case a.width == 1:
		b[0] = byte(bits)
	case a.width == 2:
		a.order.PutUint16(b, uint16(bits))
	case a.width == 4:
		a.order.PutUint32(b, uint32(bits))
	default:
		a.order.PutUint64(b, bits)
	}
	return b[:a.width]
}

// clip returns the part of bits that the access can carry.
func (a scalar) clip(bits uint64) uint64 {
	if a.name == "bool" {
		return bits & 1
	}
	return bits & (math.MaxUint64 >> (64 - 8*a.width))
}

// adapt turns a pair of methods into a scalar.
func adapt[T any](
	name string, width int, order binary.ByteOrder, toBits func(T) uint64, fromBits func(uint64) T,
	get func(*memseg.MemorySegment, int) (T, error), put func(*memseg.MemorySegment, int, T) error,
) scalar {
	return scalar{
		name: name, width: width, order: order,
		get: func(s *memseg.MemorySegment, index int) (uint64, error) {
			v, err := get(s, index)
			return toBits(v), err
		},
		put: func(s *memseg.MemorySegment, index int, bits uint64) error { return put(s, index, fromBits(bits)) },
	}
}

func integer[T byte | uint16 | uint32 | uint64](
	name string, order binary.ByteOrder,
	get func(*memseg.MemorySegment, int) (T, error), put func(*memseg.MemorySegment, int, T) error,
) scalar {
	return adapt(name, binary.Size(T(0)), order,
		func(v T) uint64 { return uint64(v) }, func(bits uint64) T { return T(bits) }, get, put)
}

func float32Scalar(
	order binary.ByteOrder,
	get func(*memseg.MemorySegment, int) (float32, error), put func(*memseg.MemorySegment, int, float32) error,
) scalar {
	return adapt("float32", 4, order,
		func(v float32) uint64 { return uint64(math.Float32bits(v)) },
		func(bits uint64) float32 { return math.Float32frombits(uint32(bits)) }, get, put)
}

func float64Scalar(
	order binary.ByteOrder,
	get func(*memseg.MemorySegment, int) (float64, error), put func(*memseg.MemorySegment, int, float64) error,
) scalar {
	return adapt("float64", 8, order, math.Float64bits, math.Float64frombits, get, put)
}

func boolToBits(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

type segmentPtr = *memseg.MemorySegment

var (
	native binary.ByteOrder = binary.NativeEndian
	little binary.ByteOrder = binary.LittleEndian
	big    binary.ByteOrder = binary.BigEndian

	scalars = []scalar{
		integer("byte", native, segmentPtr.GetByte, segmentPtr.PutByte),
		adapt("bool", 1, native, boolToBits, func(bits uint64) bool { return bits&1 != 0 }, segmentPtr.GetBool, segmentPtr.PutBool),
		integer("uint16", native, segmentPtr.GetUint16, segmentPtr.PutUint16),
		integer("uint16", little, segmentPtr.GetUint16LE, segmentPtr.PutUint16LE),
		integer("uint16", big, segmentPtr.GetUint16BE, segmentPtr.PutUint16BE),
		integer("uint32", native, segmentPtr.GetUint32, segmentPtr.PutUint32),
		integer("uint32", little, segmentPtr.GetUint32LE, segmentPtr.PutUint32LE),
		integer("uint32", big, segmentPtr.GetUint32BE, segmentPtr.PutUint32BE),
		integer("uint64", native, segmentPtr.GetUint64, segmentPtr.PutUint64),
		integer("uint64", little, segmentPtr.GetUint64LE, segmentPtr.PutUint64LE),
		integer("uint64", big, segmentPtr.GetUint64BE, segmentPtr.PutUint64BE),
		float32Scalar(native, segmentPtr.GetFloat32, segmentPtr.PutFloat32),
		float32Scalar(little, segmentPtr.GetFloat32LE, segmentPtr.PutFloat32LE),
		float32Scalar(big, segmentPtr.GetFloat32BE, segmentPtr.PutFloat32BE),
		float64Scalar(native, segmentPtr.GetFloat64, segmentPtr.PutFloat64),
		float64Scalar(little, segmentPtr.GetFloat64LE, segmentPtr.PutFloat64LE),
		float64Scalar(big, segmentPtr.GetFloat64BE, segmentPtr.PutFloat64BE),
	}
)

func forEachScalar(t *testing.T, f func(t *testing.T, a scalar)) {
	for _, a := range scalars {
		t.Run(a.name+" "+a.order.String(), func(t *testing.T) { f(t, a) })
	}
}

// requireRefused checks that get and put of a at index fail with want, say what
// was refused, and change nothing. Mem is the memory of s.
func requireRefused(t *testing.T, s *memseg.MemorySegment, mem []byte, a scalar, index int, want error) {
	t.Helper()
	before := bytes.Clone(mem)
	_, err := a.get(s, index)
	requireAccessError(t, err, want, "get "+a.name, index, a.width, s.Size())
	err = a.put(s, index, math.MaxUint64)
	requireAccessError(t, err, want, "put "+a.name, index, a.width, s.Size())
	require.True(t, bytes.Equal(before, mem), "a refused put changed the memory")
}

func requireAccessError(t *testing.T, err, want error, op string, index, width, size int) {
	t.Helper()
	require.EqualError(t, err, fmt.Sprintf("%s at %d of a segment of %d bytes: %v", op, index, size, want))
	require.ErrorIs(t, err, want)
	var access *memseg.AccessError
	require.True(t, errors.As(err, &access))
	require.Equal(t, memseg.AccessError{Op: op, Index: index, Width: width, Size: size, Freed: want == memseg.ErrFreed}, *access)
}

func TestErrorNamesAccessIndexSizeAndReason(t *testing.T) {
	s := memseg.NewSegment(make([]byte, 32), 7, nil)
	_, err := s.GetUint32(30)
	require.EqualError(t, err, "get uint32 at 30 of a segment of 32 bytes: out of bounds")
	require.EqualError(t, s.Put(-3, make([]byte, 10)), "put 10 bytes at -3 of a segment of 32 bytes: out of bounds")
	require.NoError(t, s.Free())
	require.EqualError(t, s.PutFloat64BE(0, 1), "put float64 at 0 of a segment of 32 bytes: segment was freed")
	require.EqualError(t, s.Free(), "free segment 7 of 32 bytes: can be freed only once: segment was freed")
}

func TestEmptySegmentRefusesEveryScalar(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		mem := kind.alloc(t, 0)
		s := memseg.NewSegment(mem, 0, nil)
		require.Equal(t, 0, s.Size())
		forEachScalar(t, func(t *testing.T, a scalar) {
			requireRefused(t, s, mem, a, 0, memseg.ErrOutOfBounds)
		})
	})
}

func TestSegmentOverNilIsEmptyAndNotFreed(t *testing.T) {
	s := memseg.NewSegment(nil, 0, nil)
	require.False(t, s.IsFreed())
	_, err := s.GetByte(0)
	require.ErrorIs(t, err, memseg.ErrOutOfBounds)
	all, err := s.Bytes()
	require.NoError(t, err)
	require.Empty(t, all)
	require.NoError(t, s.Free())
	_, err = s.Bytes()
	require.ErrorIs(t, err, memseg.ErrFreed)
}

func TestSegmentOfOneByteHoldsOneByteAndNothingWider(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		mem := kind.alloc(t, 1)
		s := memseg.NewSegment(mem, 0, nil)
		forEachScalar(t, func(t *testing.T, a scalar) {
			if a.width > 1 {
				requireRefused(t, s, mem, a, 0, memseg.ErrOutOfBounds)
				return
			}
			require.NoError(t, a.put(s, 0, 1))
			got, err := a.get(s, 0)
			require.NoError(t, err)
			require.EqualValues(t, 1, got)
			for _, index := range []int{1, -1, 8, -8, math.MaxInt32, math.MinInt32, math.MaxInt, math.MinInt} {
				requireRefused(t, s, mem, a, index, memseg.ErrOutOfBounds)
			}
		})
	})
}

func TestScalarIsRefusedJustOutsideAndWorksJustInside(t *testing.T) {
	forEachKindAndPage(t, func(t *testing.T, kind segmentKind, page int) {
		mem := kind.alloc(t, page)
		s := memseg.NewSegment(mem, 0, nil)
		forEachScalar(t, func(t *testing.T, a scalar) {
			for _, index := range []int{
				-1, page, page - a.width + 1, math.MaxInt32, math.MinInt32,
				math.MaxInt, math.MaxInt - a.width + 1, math.MinInt, math.MinInt + a.width,
			} {
				requireRefused(t, s, mem, a, index, memseg.ErrOutOfBounds)
			}
			for _, index := range []int{0, page - a.width} {
				require.NoError(t, a.put(s, index, math.MaxUint64))
				require.Equal(t, a.encode(math.MaxUint64), mem[index:index+a.width])
				got, err := a.get(s, index)
				require.NoError(t, err)
				require.Equal(t, a.clip(math.MaxUint64), got)
			}
		})
	})
}

func TestPageFilledWithEachWidthReadsBackTheSame(t *testing.T) {
	seed := newSeed(t)
	forEachKindAndPage(t, func(t *testing.T, kind segmentKind, page int) {
		s := kind.segment(t, page)
		forEachScalar(t, func(t *testing.T, a scalar) {
			rnd := newRand(seed)
			for index := 0; index <= page-a.width; index += a.width {
				if err := a.put(s, index, rnd.Uint64()); err != nil {
					require.NoError(t, err)
				}
			}
			rnd = newRand(seed)
			for index := 0; index <= page-a.width; index += a.width {
				want := a.clip(rnd.Uint64())
				if got, err := a.get(s, index); err != nil || got != want {
					require.NoError(t, err)
					require.Equal(t, want, got, "at %d", index)
				}
			}
		})
	})
}

func TestScalarAtAnyAlignmentHasTheBytesOfItsOrder(t *testing.T) {
	const size, positions = 11111, 10000
	seed := newSeed(t)
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		mem := kind.alloc(t, size)
		s := memseg.NewSegment(mem, 0, nil)
		forEachScalar(t, func(t *testing.T, a scalar) {
			rnd := newRand(seed)
			for range positions {
				index, bits := rnd.IntN(size-a.width+1), rnd.Uint64()
				require.NoError(t, a.put(s, index, bits))
				if want := a.encode(bits); !bytes.Equal(want, mem[index:index+a.width]) {
					require.Equal(t, want, mem[index:index+a.width], "at %d", index)
				}
				got, err := a.get(s, index)
				require.NoError(t, err)
				require.Equal(t, a.clip(bits), got, "at %d", index)
			}
		})
	})
}

func TestLittleEndianReadAsBigEndianIsReversed(t *testing.T) {
	s := memseg.NewSegment(make([]byte, 16), 0, nil)

	require.NoError(t, s.PutUint16LE(3, 0x0102))
	u16, err := s.GetUint16BE(3)
	require.NoError(t, err)
	require.EqualValues(t, 0x0201, u16)

	require.NoError(t, s.PutUint32LE(3, 0x01020304))
	u32, err := s.GetUint32BE(3)
	require.NoError(t, err)
	require.EqualValues(t, 0x04030201, u32)

	require.NoError(t, s.PutUint64LE(3, 0x0102030405060708))
	u64, err := s.GetUint64BE(3)
	require.NoError(t, err)
	require.EqualValues(t, 0x0807060504030201, u64)

	require.NoError(t, s.PutFloat32LE(3, math.Float32frombits(0x3f800102)))
	f32, err := s.GetFloat32BE(3)
	require.NoError(t, err)
	require.EqualValues(t, 0x0201803f, math.Float32bits(f32))

	require.NoError(t, s.PutFloat64LE(3, math.Float64frombits(0x3ff0010203040506)))
	f64, err := s.GetFloat64BE(3)
	require.NoError(t, err)
	require.EqualValues(t, 0x060504030201f03f, math.Float64bits(f64))
}

func TestFloatsKeepEveryBit(t *testing.T) {
	s := memseg.NewSegment(make([]byte, 8), 0, nil)
	for _, a := range scalars {
		patterns := map[string][]uint64{
			// negative zero, infinity, quiet and signalling NaN with a payload, smallest denormal
			"float32": {0x80000000, 0x7f800000, 0xffc12345, 0x7f812345, 0x00000001},
			"float64": {0x8000000000000000, 0x7ff0000000000000, 0xfff8000012345678, 0x7ff0000012345678, 0x0000000000000001},
		}[a.name]
		for _, bits := range patterns {
			require.NoError(t, a.put(s, 0, bits))
			got, err := a.get(s, 0)
			require.NoError(t, err)
			require.Equal(t, bits, got, "%s %v %#x", a.name, a.order, bits)
		}
	}
}

func TestAnyByteButZeroIsTrue(t *testing.T) {
	s := memseg.NewSegment(make([]byte, 1), 0, nil)
	for value := range 256 {
		require.NoError(t, s.PutByte(0, byte(value)))
		got, err := s.GetBool(0)
		require.NoError(t, err)
		require.Equal(t, value != 0, got, "byte %d", value)
	}
	require.NoError(t, s.PutBool(0, true))
	b, err := s.GetByte(0)
	require.NoError(t, err)
	require.EqualValues(t, 1, b)
	require.NoError(t, s.PutBool(0, false))
	b, err = s.GetByte(0)
	require.NoError(t, err)
	require.EqualValues(t, 0, b)
}

func TestFreedWinsOverBoundsForScalars(t *testing.T) {
	forEachKindAndPage(t, func(t *testing.T, kind segmentKind, page int) {
		mem := kind.alloc(t, page)
		s := memseg.NewSegment(mem, 0, nil)
		require.NoError(t, s.Free())
		forEachScalar(t, func(t *testing.T, a scalar) {
			for _, index := range []int{0, -1, page, math.MaxInt32, math.MinInt32, math.MaxInt, math.MinInt} {
				requireRefused(t, s, mem, a, index, memseg.ErrFreed)
			}
		})
	})
}

func TestSizeIndexAndOwnerSurviveFree(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		owner := &struct{ name string }{"owner"}
		s := memseg.NewSegment(kind.alloc(t, 651), 13, owner)
		for _, freed := range []bool{false, true} {
			require.Equal(t, freed, s.IsFreed())
			require.Equal(t, 651, s.Size())
			require.Equal(t, 13, s.Index())
			require.Same(t, owner, s.Owner())
			if !freed {
				require.NoError(t, s.Free())
			}
		}
	})
}

func TestSegmentCanBeFreedOnlyOnce(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		for _, size := range []int{0, 1, 4096} {
			s := kind.segment(t, size)
			require.NoError(t, s.Free())
			for range 2 {
				err := s.Free()
				require.ErrorIs(t, err, memseg.ErrFreed)
				require.ErrorContains(t, err, "can be freed only once")
			}
			require.True(t, s.IsFreed())
		}
	})
}

func TestOneOfManyConcurrentFreesSucceeds(t *testing.T) {
	for range 100 {
		s := memseg.NewSegment(make([]byte, 8), 0, nil)
		errs := make([]error, 8)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = s.Free() })
		}
		all.Wait()
		succeeded := 0
		for _, err := range errs {
			if err == nil {
				succeeded++
			} else {
				require.ErrorIs(t, err, memseg.ErrFreed)
			}
		}
		require.Equal(t, 1, succeeded)
	}
}

func TestScalarsThatSucceedDoNotAllocate(t *testing.T) {
	s := memseg.NewSegment(make([]byte, 64), 0, nil)
	forEachScalar(t, func(t *testing.T, a scalar) {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if err := a.put(s, 3, 42); err != nil {
				t.Error(err)
			}
			if _, err := a.get(s, 3); err != nil {
				t.Error(err)
			}
		}))
	})
}
