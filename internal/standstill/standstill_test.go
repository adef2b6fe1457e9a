package standstill

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// looks returns at which of the looks, so far apart, a grace has passed.
func looks(s *Standstill, now *time.Time, grace time.Duration, apart ...time.Duration) (passed []int) {
	for i, d := range apart {
		*now = now.Add(d)
		if s.FoundNothing(*now, grace) {
			passed = append(passed, i)
		}
	}
	return passed
}

func TestGracePassesInLooksThatFindNothing(t *testing.T) {
	const second, hour = time.Second, time.Hour
	for name, row := range map[string]struct {
		apart []time.Duration
		want  []int
	}{
		"step by step": {[]time.Duration{0, second, second, second, second, second, second}, []int{5}},
		"again after the first time": {[]time.Duration{0, hour, hour, hour, hour, hour, 0, hour, hour, hour, hour,
			hour}, []int{5, 11}},
		"one that was stopped": {[]time.Duration{0, hour, 0, 0, 0, 0, 0}, nil},
		"many looks": {[]time.Duration{0, second / 2, second / 2, second, second, second, second / 2,
			second / 2}, []int{7}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(0, 0)
			require.Equal(t, row.want, looks(&Standstill{}, &now, 5*second, row.apart...))
		})
	}
}

func TestWhatIsFoundBeginsTheGraceAnew(t *testing.T) {
	var s Standstill
	now := time.Unix(0, 0)
	step := Step(Grace)
	require.Empty(t, looks(&s, &now, Grace, 0, step, step, step, step))
	s.FoundSomething()
	require.Equal(t, []int{5}, looks(&s, &now, Grace, step, step, step, step, step, step))
}
