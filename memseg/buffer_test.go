package memseg

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// recycled notes the tokens of recycled elements.
type recycled struct{ tokens []uint64 }

func (r *recycled) Recycle(token uint64) { r.tokens = append(r.tokens, token) }

// overDataAndEvents runs f for a data and for an event buffer of 1024 bytes, in
// each memory.
func overDataAndEvents(t *testing.T, f func(t *testing.T, mem []byte, typ DataType)) {
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		for _, typ := range []DataType{DataBuffer, EventBuffer} {
			t.Run(typ.String(), func(t *testing.T) { f(t, newRegion(t, 1024).Bytes()[:1024], typ) })
		}
	})
}

func TestBufferIsAViewOfItsMemory(t *testing.T) {
	overDataAndEvents(t, func(t *testing.T, mem []byte, typ DataType) {
		b := NewBuffer(mem, typ, nil, 0)
		require.Equal(t, typ, b.DataType())
		require.Equal(t, typ == DataBuffer, b.DataType().IsBuffer())
		require.Equal(t, 1024, b.Len())
		first, second := b.Bytes(), b.Bytes()
		mem[17] = 42
		require.Equal(t, byte(42), first[17])
		first = first[20:]
		require.Equal(t, byte(42), second[17], "two views have positions of their own")
		require.Len(t, first, 1004)
		require.NoError(t, b.Release())
	})
}

func TestLastReleaseRecyclesOnce(t *testing.T) {
	overDataAndEvents(t, func(t *testing.T, mem []byte, typ DataType) {
		var r recycled
		b := NewBuffer(mem, typ, &r, 7)
		require.NoError(t, b.Retain())
		require.NoError(t, b.Release())
		require.False(t, b.IsReleased())
		require.Empty(t, r.tokens)
		require.NotNil(t, b.Bytes())

		require.NoError(t, b.Release())
		require.True(t, b.IsReleased())
		require.Equal(t, []uint64{7}, r.tokens)
		require.Nil(t, b.Bytes(), "the memory of a released buffer is not handed out")
	})
}

func TestUseAfterTheLastReleaseIsRefused(t *testing.T) {
	overDataAndEvents(t, func(t *testing.T, mem []byte, typ DataType) {
		var r recycled
		b := NewBuffer(mem, typ, &r, 7)
		require.NoError(t, b.Release())

		require.ErrorIs(t, b.Release(), ErrReleased)
		require.ErrorIs(t, b.Retain(), ErrReleased)
		require.Nil(t, b.Bytes())
		require.Equal(t, []uint64{7}, r.tokens, "recycled once")
	})
}

// heldOnce fails if the element is recycled twice.
type heldOnce struct{ recycled atomic.Int32 }

func (h *heldOnce) Recycle(uint64) { h.recycled.Add(1) }

func TestRetainBesideTheLastReleaseSharesOrIsRefused(t *testing.T) {
	var h heldOnce
	for range 20_000 {
		h.recycled.Store(0)
		b := NewBuffer(make([]byte, 8), DataBuffer, &h, 0)
		var retained error
		var early int32
		var wg sync.WaitGroup
		wg.Go(func() {
			if retained = b.Retain(); retained == nil {
				early = h.recycled.Load()
				_ = b.Release()
			}
		})
		wg.Go(func() { _ = b.Release() })
		wg.Wait()
		if retained != nil {
			require.ErrorIs(t, retained, ErrReleased)
		}
		require.Zero(t, early, "recycled while a reference was held")
		require.EqualValues(t, 1, h.recycled.Load())
	}
}
