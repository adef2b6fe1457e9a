package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The ceiling's ring: segments that one process fills and the other reads in
// place, in turn. Marker k says how much of segment k can be read; one word says
// how many segments the reader has released.
//
//	0                128               4096                 16384
//	+----------------+-----------------+--------------------+----------------------+
//	| released, 8 B  |                 | markers, 64 B each | segments, 32 KiB each |
//	+----------------+-----------------+--------------------+----------------------+
const (
	ringSegments    = 128
	ringSegmentSize = 32 << 10
	ringMarkers     = 4096
	ringMarkerSize  = 64
	ringData        = ringMarkers + ringSegments*ringMarkerSize + 4096
	ringSize        = ringData + ringSegments*ringSegmentSize

	// ringCommitStep is how many bytes are written before they are published.
	ringCommitStep = 4 << 10

	// ringMaxRecord is the largest record: one does not go on in the next segment.
	ringMaxRecord = ringSegmentSize - framePrefix
)

// A marker holds the ordinal of the segment's use, from 1, in its upper half, so
// that an earlier use cannot be taken for it, then two flags and the bytes
// published.
const (
	markerFinished = 1 << 31 // nothing more comes in this segment
	markerEnd      = 1 << 30 // nor in another
	markerBytes    = markerEnd - 1
)

// spinsPerLook is how often a busy loop looks at its word between looks at its
// context.
const spinsPerLook = 1 << 14

// createRing returns a new ring in shared memory.
func createRing() (*os.File, error) {
	fd, err := unix.MemfdCreate("bench-ring", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create ring: %w", err)
	}
	file := os.NewFile(uintptr(fd), "memfd:bench-ring")
	if err := file.Truncate(ringSize); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("create ring: %w", err)
	}
	return file, nil
}

// mapRing maps a ring until unmap.
func mapRing(file *os.File) (mem []byte, unmap func(), err error) {
	mem, err = unix.Mmap(int(file.Fd()), 0, ringSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map ring: %w", err)
	}
	return mem, func() { _ = unix.Munmap(mem) }, nil
}

func ringReleased(mem []byte) *ringWord { return wordOfRing(mem, 0) }

func ringMarker(mem []byte, ordinal uint64) *ringWord {
	return wordOfRing(mem, ringMarkers+int(ordinal%ringSegments)*ringMarkerSize)
}

func ringSegment(mem []byte, ordinal uint64) []byte {
	at := ringData + int(ordinal%ringSegments)*ringSegmentSize
	return mem[at : at+ringSegmentSize : at+ringSegmentSize]
}

// produceIntoRing writes the records of a source, at most ringMaxRecord bytes
// each, and then the end.
func produceIntoRing(ctx context.Context, mem []byte, source *recordSource) error {
	ordinal := uint64(1)
	marker, free := ringMarker(mem, ordinal), ringSegment(mem, ordinal)
	commitAt := ringSegmentSize - ringCommitStep // publish when so little is free
	for source.more() {
		for i := range source.count {
			frame := source.framed(i)
			if len(frame) > len(free) {
				marker.store(ordinal<<32 | markerFinished | uint64(ringSegmentSize-len(free)))
				ordinal++
				if err := awaitRelease(ctx, mem, ordinal); err != nil {
					return err
				}
				marker, free = ringMarker(mem, ordinal), ringSegment(mem, ordinal)
				commitAt = ringSegmentSize - ringCommitStep
			}
			copy(free, frame)
			free = free[len(frame):]
			if len(free) <= commitAt {
				marker.store(ordinal<<32 | uint64(ringSegmentSize-len(free)))
				commitAt = len(free) - ringCommitStep
			}
		}
	}
	marker.store(ordinal<<32 | markerFinished | markerEnd | uint64(ringSegmentSize-len(free)))
	return nil
}

// awaitRelease spins until the use of a segment before this one is released.
func awaitRelease(ctx context.Context, mem []byte, ordinal uint64) error {
	released := ringReleased(mem)
	for spins := 1; released.load()+ringSegments < ordinal; spins++ {
		if spins%spinsPerLook == 0 && ctx.Err() != nil {
			return fmt.Errorf("wait for a free segment: %w", context.Cause(ctx))
		}
	}
	return nil
}

// consumeFromRing checks what comes through a ring, up to its end.
func consumeFromRing(ctx context.Context, mem []byte, checker *recordChecker, timer *spanTimer) error {
	released := ringReleased(mem)
	for ordinal := uint64(1); ; ordinal++ {
		marker, segment := ringMarker(mem, ordinal), ringSegment(mem, ordinal)
		for read := 0; ; {
			seen, err := awaitBytes(ctx, marker, ordinal, read)
			if err != nil {
				return err
			}
			published := int(seen & markerBytes)
			if published < read || published > ringSegmentSize {
				return fmt.Errorf("ring marker is %#x after %d bytes: %w", seen, read, ErrContent)
			}
			if ordinal == 1 && read == 0 {
				timer.begin()
			}
			if err := checkFrames(segment[read:published], checker); err != nil {
				return err
			}
			read = published
			if seen&markerEnd != 0 {
				return nil
			}
			if seen&markerFinished != 0 {
				break
			}
		}
		released.store(ordinal)
	}
}

// awaitBytes spins until more of a segment is published than was read, or it is
// finished.
func awaitBytes(ctx context.Context, marker *ringWord, ordinal uint64, read int) (uint64, error) {
	for spins := 1; ; spins++ {
		seen := marker.load()
		if seen>>32 == ordinal&(1<<32-1) && (seen&markerFinished != 0 || int(seen&markerBytes) > read) {
			return seen, nil
		}
		if spins%spinsPerLook == 0 && ctx.Err() != nil {
			return 0, fmt.Errorf("wait for records: %w", context.Cause(ctx))
		}
	}
}

// checkFrames checks whole records, each behind its length.
func checkFrames(frames []byte, checker *recordChecker) error {
	for len(frames) >= framePrefix {
		end := framePrefix + int(binary.BigEndian.Uint32(frames))
		if end > len(frames) {
			break
		}
		if err := checker.check(frames[framePrefix:end]); err != nil {
			return err
		}
		frames = frames[end:]
	}
	if len(frames) > 0 {
		return fmt.Errorf("%d bytes are left behind record %d: %w", len(frames), checker.count(), ErrContent)
	}
	return nil
}
