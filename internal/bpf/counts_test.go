package bpf

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fill sets every number below v to n and every nil pointer to something.
func fill(v reflect.Value, n uint64) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(testTime.Add(time.Duration(n))))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Uint64:
		v.SetUint(n)
	case reflect.Int64:
		v.SetInt(int64(n))
	}
}

func filled(n uint64) (c Counts) {
	fill(reflect.ValueOf(&c).Elem(), n)
	c.CopySource = CopyRequests
	return c
}

func TestSubOfEveryFigure(t *testing.T) {
	later, earlier := filled(30), filled(12)
	want := filled(18)
	want.Taken = later.Taken
	require.Equal(t, want, later.Sub(earlier))
	require.Equal(t, filled(30), later, "the later counts have changed")
	require.Equal(t, filled(12), earlier, "the earlier counts have changed")

	swapped := filled(0)
	swapped.Taken = earlier.Taken
	require.Equal(t, swapped, earlier.Sub(later))
}

func TestSubKeepsWhatWasNotMeasured(t *testing.T) {
	nothing := Counts{Taken: testTime}
	require.Equal(t, nothing, nothing.Sub(nothing))
	require.Equal(t, nothing, nothing.Sub(filled(1)))
	left := filled(5).Sub(nothing)
	require.Nil(t, left.Wakes)
	require.Nil(t, left.Handoff)
	require.Equal(t, RoleCounts{}, left.Roles[Producer])
}

func TestNamesOfEveryValue(t *testing.T) {
	seen := make(map[string]bool)
	name := func(s string) {
		require.NotEmpty(t, s)
		require.False(t, seen[s], "%q twice", s)
		seen[s] = true
	}
	for r := range Role(Roles) {
		name(r.String())
	}
	clear(seen)
	for r := range OffCPUReason(OffCPUReasons) {
		name(r.String())
	}
	clear(seen)
	for c := range Channel(Channels) {
		name(c.String())
	}
	clear(seen)
	for s := range CopyReturns + 1 {
		name(s.String())
	}
	require.Equal(t, "role 9", Role(9).String())
	require.Equal(t, "reason 200", OffCPUReason(200).String())
	require.Equal(t, "channel 200", Channel(200).String())
	require.Equal(t, "source 200", CopySource(200).String())
}
