package sentinel

import (
	"errors"
	"reflect"
	"strings"
)

// Foreign returns err as the error of somebody else: errors.Is and errors.As find
// what it wraps, but no sentinel of this module, none of its types and no end of a
// stream. What the code of a user returns, or the cause that it gave a context, may
// come from another stream, and says nothing of this one. A nil err is nil.
func Foreign(err error) error {
	if err == nil {
		return nil
	}
	return &foreign{err}
}

// foreign does not unwrap, so that Is and As decide what is found.
type foreign struct{ err error }

func (f *foreign) Error() string { return f.err.Error() }

func (f *foreign) Is(target error) bool { return !IsOwn(target) && errors.Is(f.err, target) }

func (f *foreign) As(target any) bool {
	wanted := reflect.TypeOf(target).Elem()
	if wanted.Kind() == reflect.Pointer {
		wanted = wanted.Elem()
	}
	return !strings.HasPrefix(wanted.PkgPath(), "shuffled/") && errors.As(f.err, target)
}
