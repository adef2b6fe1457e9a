package partition_test

import "shuffled/memseg"

// A modelElement is a data buffer or an event of one subpartition, as the model
// has it.
type modelElement struct {
	typ      memseg.DataType
	content  []byte
	finished bool
	visible  int // bytes that a reader may see; all of them once it is finished
	segment  *modelSegment
	held     int // parts of it that the user has not released
}

// A modelSegment counts the subpartitions that hold it.
type modelSegment struct{ holders int }

// A modelStream is one subpartition: everything that was ever queued, and how
// far it was read.
type modelStream struct {
	elements []*modelElement
	read     int  // elements read to their end
	offset   int  // bytes read of elements[read]
	reading  bool // elements[read] was opened
	released int  // elements released in order

	priorities         []*modelElement // not released in order
	prioritiesRead     int             // of those
	blocked, discarded bool

	// Stream positions, which count bytes and finished elements.
	finishedTo, flushedTo, readTo int
}

// open returns the open buffer, or nil.
func (s *modelStream) open() *modelElement {
	if len(s.elements) == 0 {
		return nil
	}
	if last := s.elements[len(s.elements)-1]; !last.finished {
		return last
	}
	return nil
}

func (s *modelStream) ended() bool {
	return s.read > 0 && s.elements[s.read-1].typ == memseg.EndOfPartition
}

// finish ends the open buffer and returns it.
func (s *modelStream) finish() {
	if open := s.open(); open != nil {
		open.finished, open.visible = true, len(open.content)
		s.finishedTo += len(open.content) + 1
		s.discardFinished()
	}
}

func (s *modelStream) addEvent(typ memseg.DataType, content []byte) {
	s.elements = append(s.elements, &modelElement{typ: typ, content: content, finished: true, visible: len(content)})
	s.finishedTo++
	s.flushedTo = s.finishedTo
	s.discardFinished()
}

func (s *modelStream) flush() {
	to := s.finishedTo
	if open := s.open(); open != nil {
		open.visible = len(open.content)
		to += open.visible
	}
	s.flushedTo = max(s.flushedTo, to)
}

func (s *modelStream) discardFinished() {
	if !s.discarded {
		return
	}
	s.read = len(s.elements)
	if s.open() != nil {
		s.read--
	}
	s.releaseInOrder()
}

// releaseInOrder moves the cursors over what the user has released.
func (s *modelStream) releaseInOrder() {
	for s.prioritiesRead > 0 && s.priorities[0].held == 0 {
		s.priorities = s.priorities[1:]
		s.prioritiesRead--
	}
	for s.released < s.read && s.elements[s.released].held == 0 {
		if segment := s.elements[s.released].segment; segment != nil {
			segment.holders--
		}
		s.released++
	}
}

// unreleasedEvents is how many event slots are taken.
func (s *modelStream) unreleasedEvents() int {
	n := 0
	for _, e := range s.elements[s.released:] {
		if e.typ.IsEvent() {
			n++
		}
	}
	return n
}

func (s *modelStream) isAvailable() bool {
	return s.prioritiesRead < len(s.priorities) || !s.blocked && !s.ended() &&
		(s.finishedTo > s.readTo || s.flushedTo > s.readTo)
}

// A modelPoll is what a poll is to return.
type modelPoll struct {
	element *modelElement // nil for nothing
	content []byte
	tooMany bool
}

// kept is how many elements were read and not released.
func (s *modelStream) kept() int {
	n := 0
	for _, e := range s.elements[s.released:s.read] {
		if e.held > 0 {
			n++
		}
	}
	return n
}

// poll takes the next element; holdLimit is how many may be kept beside it.
func (s *modelStream) poll(holdLimit int) modelPoll {
	if s.prioritiesRead < len(s.priorities) {
		e := s.priorities[s.prioritiesRead]
		s.prioritiesRead++
		e.held++
		return modelPoll{element: e, content: e.content}
	}
	for !s.blocked && !s.ended() && s.read < len(s.elements) {
		if !s.reading && s.kept() > holdLimit {
			return modelPoll{tooMany: true}
		}
		s.reading = true
		e := s.elements[s.read]
		content := e.content[s.offset:e.visible]
		s.offset = e.visible
		if e.typ.IsBuffer() {
			s.readTo += len(content)
		}
		if e.finished {
			s.readTo++
			s.read++
			s.offset, s.reading = 0, false
			s.blocked = e.typ.IsBlockingUpstream()
		}
		if len(content) > 0 {
			e.held++
			return modelPoll{element: e, content: content}
		}
		if !e.finished {
			break
		}
		s.releaseInOrder()
	}
	return modelPoll{}
}
