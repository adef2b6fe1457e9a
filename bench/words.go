package bench

import "io"

// isWordByte says which bytes make up words: ASCII letters, digits, underscore,
// and all bytes from 0x80 on, so that letters in UTF-8 stay together.
var isWordByte = func() (is [256]bool) {
	for c := range is {
		is[c] = c >= 0x80 || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return is
}()

// wordBufferSize is how much text is read at a time.
const wordBufferSize = 256 << 10

// A WordReader cuts text into words: the longest runs of ASCII letters, digits,
// underscores and bytes from 0x80 on. Case matters; text is not decoded. One
// goroutine uses it.
type WordReader struct {
	r          io.Reader
	buf        []byte
	start, end int // of the text in buf that is not looked at yet
	read       int64
	err        error
}

// NewWordReader returns a reader of the words in r.
func NewWordReader(r io.Reader) *WordReader {
	w := &WordReader{buf: make([]byte, wordBufferSize)}
	w.Reset(r)
	return w
}

// Reset goes on with another text. A word does not reach from one text into the
// next.
func (w *WordReader) Reset(r io.Reader) { w.r, w.start, w.end, w.err = r, 0, 0, nil }

// BytesRead counts the bytes of all texts so far.
func (w *WordReader) BytesRead() int64 { return w.read }

// Next returns the next word, valid until the next call, or io.EOF, or the
// error of the underlying reader.
func (w *WordReader) Next() ([]byte, error) {
	for {
		text := w.buf[w.start:w.end]
		first := 0
		for first < len(text) && !isWordByte[text[first]] {
			first++
		}
		last := first
		for last < len(text) && isWordByte[text[last]] {
			last++
		}
		if last < len(text) || w.err != nil && last > first {
			w.start += last
			return text[first:last:last], nil
		}
		if w.err != nil {
			return nil, w.err
		}
		w.start += first
		w.fill()
	}
}

// fill reads more behind the text that is left, and makes room for it first.
func (w *WordReader) fill() {
	copy(w.buf, w.buf[w.start:w.end])
	w.start, w.end = 0, w.end-w.start
	if w.end == len(w.buf) {
		w.buf = append(w.buf, make([]byte, len(w.buf))...)
	}
	n, err := w.r.Read(w.buf[w.end:])
	w.end += n
	w.read += int64(n)
	w.err = err
}
