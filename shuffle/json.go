package shuffle

import "encoding/json"

// JSON is the AppendCodec of records as encoding/json has them. A decoded record is a
// copy, so it may be kept.
type JSON[T any] struct{}

// Append adds the JSON of rec.
func (JSON[T]) Append(dst []byte, rec T) ([]byte, error) {
	text, err := json.Marshal(rec)
	return append(dst, text...), err
}

// Decode reads one JSON value. What follows it is an error.
func (JSON[T]) Decode(src []byte) (rec T, err error) {
	err = json.Unmarshal(src, &rec)
	return rec, err
}
