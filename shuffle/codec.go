package shuffle

import "math"

// MaxRecordLength is the longest record, in bytes without its length prefix.
const MaxRecordLength = math.MaxInt32

// A Decoder reads records. It is used by one goroutine at a time.
type Decoder[T any] interface {
	// Decode reads a record from exactly the bytes that Append added. The bytes
	// may lie in shared memory and are valid until the next record is read: a
	// record that is kept must copy them. It must return an error for bytes that
	// it cannot read, and for bytes that are left over.
	Decode(src []byte) (T, error)
}

// A Codec turns records into bytes and back. It is used by one goroutine at a
// time on each side; the two sides may be different processes. One that cannot tell the
// size of a record before, or may fail, is an AppendCodec.
//
// A codec that breaks its promises is ErrCorruptRecord of that record, of which
// nothing is written; it must not use the writer that calls it, nor keep dst.
type Codec[T any] interface {
	Decoder[T]
	// Size returns how many bytes Append will add for rec.
	Size(rec T) int
	// Append adds the serialised record to dst, which has room for Size bytes and
	// may lie in shared memory, and returns the extended slice.
	Append(dst []byte, rec T) []byte
}

// An AppendCodec is a codec that may fail and need not know the size of a record before
// it has serialised it, for writer.NewAppending. Each record is copied once more than
// by a Codec.
//
// It must not use the writer that calls it, nor keep dst.
type AppendCodec[T any] interface {
	Decoder[T]
	// Append adds the serialised record to dst, which lies in the process's own memory,
	// and returns the extended slice. After an error nothing of the record is written.
	Append(dst []byte, rec T) ([]byte, error)
}

// Bytes is the codec of byte slices. A decoded record is the bytes in shared
// memory: read-only, and valid until the next record is read.
type Bytes struct{}

// Size returns len(rec).
func (Bytes) Size(rec []byte) int { return len(rec) }

// Append copies rec.
func (Bytes) Append(dst, rec []byte) []byte { return append(dst, rec...) }

// Decode returns src itself.
func (Bytes) Decode(src []byte) ([]byte, error) { return src, nil }

// Strings is the codec of strings. A decoded record is a copy, so it may be kept.
type Strings struct{}

// Size returns len(rec).
func (Strings) Size(rec string) int { return len(rec) }

// Append copies rec.
func (Strings) Append(dst []byte, rec string) []byte { return append(dst, rec...) }

// Decode copies src.
func (Strings) Decode(src []byte) (string, error) { return string(src), nil }
