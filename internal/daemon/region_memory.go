package daemon

import "shuffled/memseg"

// regionMemory are the shared objects of a partition. hostedRegion.mu guards it.
type regionMemory struct {
	layout   *memseg.PartitionLayout
	memfd    *memseg.Memfd
	doorbell *memseg.Memfd
	control  *memseg.Region // header and queues, read-only, for statistics
	markers  []bool         // of each page of markers: it is backed
}

// queueBytes is the part of a region that is backed from the beginning: header,
// event slots and queues.
func queueBytes(l *memseg.PartitionLayout) int64 {
	return (l.MarkerOffset(0) + pageSize - 1) / pageSize * pageSize
}

// create makes the objects and backs what is needed at once, step by step: after an error
// what there is has to be given back all the same.
func (m *regionMemory) create(s *Server, id string) (err error) {
	if m.memfd, err = memseg.CreateMemfd(s.objectName("partition-"+id), m.layout.RegionSize()); err != nil {
		return err
	}
	size := memseg.DoorbellSize(m.layout.Subpartitions)
	if m.doorbell, err = memseg.CreateOpenMemfd(s.objectName("doorbell"), size); err != nil {
		return err
	}
	if err = s.commit(m.memfd, 0, queueBytes(m.layout)); err != nil {
		return err
	}
	if err = m.doorbell.Commit(0, m.doorbell.Size()); err != nil {
		return err
	}
	if err = m.memfd.WriteAt(m.layout.EncodeHeader(), 0); err != nil {
		return err
	}
	if s.config.Isolation == DefaultIsolation {
		if err = m.memfd.SealSeals(); err != nil {
			return err
		}
	}
	if err = m.doorbell.SealSeals(); err != nil {
		return err
	}
	m.control, err = m.memfd.Map(memseg.ReadOnly, queueBytes(m.layout))
	return err
}

// commit backs segments and their markers, and returns how many bytes of markers were not
// backed before. They are not given back before the region is.
func (m *regionMemory) commit(call func(m *memseg.Memfd, offset, length int64) error, first, last int) (markers int64,
	err error) {
	start, end := m.layout.SegmentOffset(first), m.layout.SegmentOffset(last+1)
	if err := call(m.memfd, start, end-start); err != nil {
		return 0, err
	}
	start, end = m.layout.MarkerOffset(first), m.layout.MarkerOffset(last+1)
	if err := call(m.memfd, start, end-start); err != nil {
		return 0, err
	}
	beyond := queueBytes(m.layout) / pageSize
	for page := max(start/pageSize, beyond); page*pageSize < end; page++ {
		for int64(len(m.markers)) <= page-beyond {
			m.markers = append(m.markers, false)
		}
		if !m.markers[page-beyond] {
			m.markers[page-beyond] = true
			markers += pageSize
		}
	}
	return markers, nil
}

// punch takes the memory of segments away.
func (m *regionMemory) punch(first, last int) error {
	start, end := m.layout.SegmentOffset(first), m.layout.SegmentOffset(last+1)
	return m.memfd.Punch(start, end-start)
}
