package client

import (
	"io"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// The producer is another process, whose consumer has no other way of knowing what it
// waits for. Who keeps as many buffers as it may have under way is told, who keeps one
// less is not.
func TestConsumerThatKeepsTheQuotaOfItsProducerIsTold(t *testing.T) {
	for _, keep := range []int{childQuota, childQuota - 1} {
		t.Run(strconv.Itoa(keep), func(t *testing.T) {
			d := startDaemon(t, testConfig())
			id := shuffle.NewPartitionID()
			gate := openOne(t, d.dial(t), id, 0)
			kill := startChild(t, "producer with a quota", d.path, id)
			defer kill()
			var kept []shuffle.BufferOrEvent
			release := func() {
				require.NoError(t, kept[0].Release())
				kept = kept[1:]
			}
			got, told := 0, 0
			for {
				if len(kept) > keep-1 && keep < childQuota {
					release()
				}
				b, err := gate.Next(testContext(t))
				if err == io.EOF {
					break
				}
				if err != nil {
					require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
					require.ErrorContains(t, err, "3 are kept, the oldest is element "+strconv.Itoa(got-keep))
					require.ErrorContains(t, err,
						"it goes on with at most 2 held back, fewer than its MaxBuffersPerChannel allows the subpartition: release buffers and read on")
					require.Len(t, kept, keep)
					if told++; told == 2 { // once is like the next time
						keep = 1
					}
					for len(kept) > 0 {
						release()
					}
					continue
				}
				if b.IsEvent() {
					require.NoError(t, b.Release())
					continue
				}
				require.Equal(t, byte('0'+got%10), b.Bytes()[b.Len()-1])
				got++
				if kept = append(kept, b); keep == 1 {
					release()
				}
			}
			for len(kept) > 0 {
				release()
			}
			require.Equal(t, childBuffers, got)
			if keep == 1 {
				require.Equal(t, 2, told)
			} else {
				require.Zero(t, told)
			}
		})
	}
}
