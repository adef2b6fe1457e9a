package linktest

import "shuffled/memseg"

// A Queue is a second producer's end of a subpartition's queue, for a producer that
// misbehaves. Its events are stored as it publishes them.
type Queue struct {
	*memseg.QueueWriter
	events *memseg.EventSlots
}

// Queue returns the producer's end of a subpartition's queue, as it is at the
// beginning.
func (l *Link) Queue(sub int) *Queue {
	events := memseg.NewEventSlots(l.Region())
	return &Queue{QueueWriter: memseg.NewQueueWriter(l.Region(), &l.Layout, sub, events), events: events}
}

// PublishEvent stores an event and publishes it in this queue alone.
func (q *Queue) PublishEvent(typ memseg.DataType, content []byte) error {
	return q.publish(content, func(e memseg.StoredEvent) error { return q.QueueWriter.PublishEvent(typ, e) })
}

// PublishPriorityEvent does so with a priority event.
func (q *Queue) PublishPriorityEvent(typ memseg.DataType, content []byte) error {
	return q.publish(content, func(e memseg.StoredEvent) error { return q.QueueWriter.PublishPriorityEvent(typ, e) })
}

func (q *Queue) publish(content []byte, publish func(memseg.StoredEvent) error) error {
	e, err := q.events.Put(content)
	if err != nil {
		return err
	}
	defer q.events.Release(e)
	return publish(e)
}
