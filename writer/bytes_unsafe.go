package writer

import "unsafe"

// asBytes returns a record as the bytes that it is. Only where T is []byte.
func asBytes[T any](rec *T) []byte { return *(*[]byte)(unsafe.Pointer(rec)) }
