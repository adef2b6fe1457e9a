package memseg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// elsewhere runs f in another goroutine, whose place it is told, to its end.
func elsewhere(f func(at Place)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var here byte
		f(PlaceOf(&here))
	}()
	<-done
}

// deep calls f from further down the stack than a place is large.
//
//go:noinline
func deep(f func(at Place)) byte {
	var here [3 << stackBlockBits]byte
	f(PlaceOf(&here[0]))
	return here[len(here)-1]
}

func newFilled(t *testing.T, size int) (b *BufferBuilder, at Place) {
	t.Helper()
	deep(func(Place) {}) // the stack has its size from now on
	b = NewBufferBuilder(make([]byte, size), NewPositionMarker())
	at = PlaceOf(&size)
	require.Nil(t, b.Enter(at, 1), "nobody is let in at first")
	b.LetIn(at)
	return b, at
}

func TestOnlyTheGoroutineThatWasLetInEnters(t *testing.T) {
	b, at := newFilled(t, 64)
	require.Len(t, b.Enter(at, 40), 40)
	require.False(t, b.Advance(40))
	require.Nil(t, b.Enter(at, 25), "no room")
	require.Len(t, b.Enter(at, 24), 24)
	b.Leave()
	elsewhere(func(other Place) {
		require.NotEqual(t, at, other)
		require.Nil(t, b.Enter(other, 1))
		require.False(t, b.Follow(other))
	})
	deep(func(below Place) {
		require.NotEqual(t, at, below)
		require.Nil(t, b.Enter(below, 1))
		require.True(t, b.Follow(below))
		require.Len(t, b.Enter(below, 1), 1)
		require.False(t, b.Follow(below), "it is there")
		b.Leave()
	})
	require.Nil(t, b.Enter(at, 1))
	require.True(t, b.Follow(at))
	b.Pause()
	require.Nil(t, b.Enter(at, 1))
	require.False(t, b.Follow(at))
	b.Resume(at)
	require.Len(t, b.Enter(at, 24), 24)
	require.True(t, b.Advance(24), "full")
}

func TestBuilderIsTakenUnlessItsFillerIsWriting(t *testing.T) {
	withFences(t, func(t *testing.T) {
		b, at := newFilled(t, 64)
		other, _ := newFilled(t, 64)
		take := func() (limits []uint64, ok bool) {
			elsewhere(func(Place) { limits, ok = TakeFrom([]*BufferBuilder{b, other}) })
			return limits, ok
		}
		copy(b.Enter(at, 4), "half")
		_, ok := take()
		require.False(t, ok)
		b.Advance(4)
		require.Len(t, other.Enter(at, 64), 64, "it was given back")
		_, ok = take()
		require.False(t, ok, "the second one of them")
		other.Leave()
		copy(b.Enter(at, 4), "full")
		b.Advance(4)
		limits, ok := take()
		require.True(t, ok)
		require.Equal(t, []uint64{64, 64}, limits)

		require.Nil(t, b.Enter(at, 1))
		require.False(t, b.Follow(at), "the filler goes the long way")
		next := b.Successor(limits[0])
		require.Nil(t, next.Enter(at, 1), "and so does everybody else")
		require.Equal(t, 8, int(next.pos))
		require.Equal(t, 56, next.WritableBytes())
		_, err := next.Append([]byte("!"))
		require.NoError(t, err)
		next.LetIn(at)
		require.Len(t, next.Enter(at, 55), 55)
		require.Nil(t, b.Enter(at, 1), "the old one stays as it is")
	})
}

// Where stores may overtake each other, a filler that goes from one record to the next
// is seen at the next one before the position of the last one is.
func TestFillerBeyondItsPositionIsWriting(t *testing.T) {
	b, at := newFilled(t, 64)
	copy(b.Enter(at, 4), "last")
	b.filler.entered += 4
	_, ok := TakeFrom([]*BufferBuilder{b})
	require.False(t, ok)
	b.Advance(4)
	_, ok = TakeFrom([]*BufferBuilder{b})
	require.False(t, ok)
	b.Leave()
	_, ok = TakeFrom([]*BufferBuilder{b})
	require.True(t, ok)
}

// withFences runs a test with membarrier(2), where there is one, and without.
func withFences(t *testing.T, test func(t *testing.T)) {
	has := hasMembarrier
	defer func() { hasMembarrier = has }()
	for name, value := range map[string]bool{"membarrier": true, "stop": false} {
		t.Run(name, func(t *testing.T) {
			if value && !has() {
				t.Skip("this kernel, or what confines the process, has no membarrier(2)")
			}
			hasMembarrier = func() bool { return value }
			test(t)
		})
	}
}

func TestStoppedBuilderTakesAndPublishesNothing(t *testing.T) {
	b, at := newFilled(t, 64)
	_, err := b.Append([]byte("seen"))
	require.NoError(t, err)
	b.Commit()
	dst := b.Enter(at, 8)
	b.Stop()
	copy(dst, "harmless")
	b.Advance(len(dst))
	require.Equal(t, 4, b.Commit())
	require.Nil(t, b.Enter(at, 1))
	require.Nil(t, b.Reserve(1))
	_, err = b.Append([]byte("x"))
	require.ErrorIs(t, err, ErrBuilderFinished)
	b.Resume(at)
	require.Nil(t, b.Enter(at, 0), "for good")
}
