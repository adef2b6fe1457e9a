// Package sentinel makes the errors that the packages of this module declare for
// errors.Is, so that they can be told from those of anybody else.
package sentinel

import "io"

// An Error is a sentinel of this module.
type Error struct{ text string }

// New returns a sentinel. Each call returns another one.
func New(text string) *Error { return &Error{text} }

// Error returns the text.
func (e *Error) Error() string { return e.text }

// IsOwn reports whether an error means something by itself to the users of this
// module: one of its own sentinels, or an end of a stream. An error of somebody else
// that wraps one of them is not own.
func IsOwn(err error) bool {
	if _, ok := err.(*Error); ok {
		return true
	}
	return err == io.EOF || err == io.ErrUnexpectedEOF
}
