package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSignalIsClosedAtOnceWhenTheConditionHolds(t *testing.T) {
	var s signal
	require.True(t, isClosed(s.wait(true)))
	require.Nil(t, s.fire(true), "nobody waits")
}

func TestSignalStaysTheSameUntilTheConditionHolds(t *testing.T) {
	var s signal
	first := s.wait(false)
	require.Nil(t, s.fire(false))
	require.Equal(t, first, s.wait(false))
	require.False(t, isClosed(first))
}

func TestSignalIsClosedByWhoFiredIt(t *testing.T) {
	var s signal
	waiting := s.wait(false)
	toClose := s.fire(true)
	require.False(t, isClosed(waiting), "not before the caller has left the lock")
	wakeUps{nil, toClose}.run()
	require.True(t, isClosed(waiting))
	require.NotEqual(t, waiting, s.wait(false), "the next wait is a new one")
	require.False(t, isClosed(s.wait(false)))
}
