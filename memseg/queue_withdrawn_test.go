package memseg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithdrawnQueueEndsItsReaderBeforeItsNextElement(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		for range priorityCapacity {
			require.NoError(t, q.publishEvent(PrioritizedEventBuffer, []byte("p")))
		}
		require.NoError(t, q.publishEvent(EventBuffer, []byte("e")))
		_, err := q.reader.RefreshPriority()
		require.NoError(t, err)
		_, err = q.reader.NextPriority()
		require.NoError(t, err)

		q.writer.Withdraw()
		_, err = q.reader.RefreshPriority()
		require.ErrorIs(t, err, ErrWithdrawn)
		require.NoError(t, q.publishEvent(EndOfPartition, nil), "the producer goes on")
		_, err = q.writer.AcceptReleased(q.first+2, false, nil)
		require.NoError(t, err)
		require.Equal(t, [eventSlots]int{}, q.events.uses, "nobody names an event any more")
		_, err = q.reader.RefreshPriority()
		require.ErrorIs(t, err, ErrWithdrawn)
	})
}
