package pool

import "shuffled/internal/sentinel"

// The errors of the pools. What is returned wraps one of them with the numbers
// that it is about.
var (
	// ErrInsufficientBuffers is returned when the required segments of a new
	// grant exceed what is free and reserved for no other grant.
	ErrInsufficientBuffers error = sentinel.InsufficientBuffers
	// ErrInvalidArgument is returned for a parameter outside its range; the
	// message names parameter, value and range.
	ErrInvalidArgument error = sentinel.InvalidArgument
	// ErrDestroyed is returned by requests to a pool that was destroyed.
	ErrDestroyed error = sentinel.New("buffer pool is destroyed")
	// ErrUnknownSegment is returned when segments are handed over by a side that
	// does not have them: a number that is out of range or held already, or more
	// segments than are held or were asked for. Nothing has been changed then.
	ErrUnknownSegment error = sentinel.New("unknown segment")
)
