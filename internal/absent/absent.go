// Package absent tells arguments that were not given from those that were.
package absent

import "reflect"

// Is reports whether v is nil, or an interface around a pointer or function that is.
// Nil maps and slices have methods that work.
func Is(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func:
		return r.IsNil()
	default:
		return false
	}
}
