package memseg

import (
	"fmt"
	"runtime/debug"
)

// UnreadSegments returns the segments that a consumer may still read: those of the
// elements of a subpartition that are published and that it has not released,
// released being how many it has. They may repeat. At least the queues of the
// region must be mapped. A queue or a number outside what the layout allows is
// ErrCorrupt, a region whose memory is gone ErrFault.
func UnreadSegments(region *Region, l *PartitionLayout, subpartition int, released uint64) (segments []int, err error) {
	defer RecoverFault(debug.SetPanicOnFault(true), "read queue of "+region.Name(), &err)
	q := NewQueueReader(region, l, subpartition)
	q.next += released
	q.seen = q.next
	if err := q.Refresh(); err != nil {
		return nil, fmt.Errorf("subpartition %d: %w", subpartition, err)
	}
	for ; q.Queued() > 0; q.Advance() {
		d, err := q.Peek()
		if err != nil {
			return nil, fmt.Errorf("subpartition %d: %w", subpartition, err)
		}
		if d.Type.IsBuffer() {
			segments = append(segments, d.Segment)
		}
	}
	return segments, nil
}
