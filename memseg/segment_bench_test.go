package memseg_test

import (
	"testing"

	"shuffled/memseg"
)

var benchmarkSink uint64

// BenchmarkSegmentScalars is the cost of one put and one get, next to the plain
// loads and stores that it should come close to.
func BenchmarkSegmentScalars(b *testing.B) {
	const page = 32 << 10
	for _, kind := range segmentKinds {
		mem := kind.alloc(b, page)
		s := memseg.NewSegment(mem, 0, nil)
		b.Run("uint64/"+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			index := 0
			for range b.N {
				if err := s.PutUint64(index, uint64(index)); err != nil {
					b.Fatal(err)
				}
				v, err := s.GetUint64(index)
				if err != nil {
					b.Fatal(err)
				}
				benchmarkSink += v
				index = (index + 8) & (page - 1)
			}
		})
		b.Run("float64BE unaligned/"+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			index := 1
			for range b.N {
				if err := s.PutFloat64BE(index, 1.5); err != nil {
					b.Fatal(err)
				}
				v, err := s.GetFloat64BE(index)
				if err != nil {
					b.Fatal(err)
				}
				benchmarkSink += uint64(v)
				index = (index+8)&(page/2-1) + 1
			}
		})
		b.Run("byte/"+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			index := 0
			for range b.N {
				if err := s.PutByte(index, byte(index)); err != nil {
					b.Fatal(err)
				}
				v, err := s.GetByte(index)
				if err != nil {
					b.Fatal(err)
				}
				benchmarkSink += uint64(v)
				index = (index + 1) & (page - 1)
			}
		})
		b.Run("plain byte/"+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			index := 0
			for range b.N {
				mem[index] = byte(index)
				benchmarkSink += uint64(mem[index])
				index = (index + 1) & (page - 1)
			}
		})
	}
}
