package page

import (
	"math"
	"slices"
)

// An axis maps values to places from 0 to 1.
type axis struct {
	// flat makes a value one that lies on a straight line.
	flat     func(float64) float64
	low, top float64 // flat values at the ends
	ticks    []float64
	log      bool
}

// at returns the place of a value. One that is not on the axis is at its end.
func (a *axis) at(v float64) float64 {
	place := (a.flat(v) - a.low) / (a.top - a.low)
	if math.IsNaN(place) {
		return 0
	}
	return min(max(place, 0), 1)
}

// maxTicks is how many ticks an axis has at most, for large text.
const maxTicks = 7

// wideRange is from which ratio of highest to lowest value an axis is
// logarithmic. Below it starts at zero, so that heights compare.
const wideRange = 12

// newAxis returns an axis for some values; there may be none.
func newAxis(values []float64, binary bool) *axis {
	if len(values) == 0 {
		values = []float64{1}
	}
	low, high := slices.Min(values), slices.Max(values)
	if low > 0 && high/low >= wideRange {
		return logAxis(low, high, binary)
	}
	return linearAxis(high, binary)
}

func identity(v float64) float64 { return v }

// linearAxis goes from 0 to a round number that is not below high.
func linearAxis(high float64, binary bool) *axis {
	if !(high > 0) || high > math.MaxFloat64/8 {
		high = 1
	}
	step := roundStep(high/(maxTicks-2), binary)
	a := &axis{flat: identity}
	for i := 0; i <= maxTicks; i++ {
		a.ticks = append(a.ticks, float64(i)*step)
		if float64(i)*step >= high {
			break
		}
	}
	a.top = a.ticks[len(a.ticks)-1]
	return a
}

// roundStep returns the next round number from v up.
func roundStep(v float64, binary bool) float64 {
	if binary {
		return math.Exp2(math.Ceil(math.Log2(v)))
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, mantissa := range []float64{1, 2, 5} {
		if v <= mantissa*power {
			return mantissa * power
		}
	}
	return 10 * power
}

// logAxis goes from a round number not above low to one not below high.
func logAxis(low, high float64, binary bool) *axis {
	round := powers(10, []float64{1, 2, 5}, low, high)
	if binary {
		round = powers(2, []float64{1}, low, high)
	}
	a := &axis{flat: math.Log10, low: math.Log10(round[0]), top: math.Log10(round[len(round)-1]), log: true}
	if len(round) > maxTicks && !binary {
		round = slices.DeleteFunc(round, func(v float64) bool { return !isPowerOf10(v) })
	}
	// Of many ticks only every nth has a place.
	nth := (len(round) + maxTicks - 1) / maxTicks
	for i := 0; i < len(round); i += nth {
		a.ticks = append(a.ticks, round[i])
	}
	return a
}

func isPowerOf10(v float64) bool {
	exponent := math.Log10(v)
	return math.Abs(exponent-math.Round(exponent)) < 1e-9
}

// powers returns mantissas times powers of base, from the last that is not above
// low to the first that is not below high.
func powers(base float64, mantissas []float64, low, high float64) (values []float64) {
	first := math.Floor(math.Log(low)/math.Log(base)) - 1
	last := math.Ceil(math.Log(high)/math.Log(base)) + 1
	for exponent := first; exponent <= last; exponent++ {
		for _, mantissa := range mantissas {
			v := mantissa * math.Pow(base, exponent)
			if v <= low*(1+1e-9) {
				values = values[:0]
			}
			values = append(values, v)
			if v >= high*(1-1e-9) {
				return values
			}
		}
	}
	return values
}

// valueAxis is logarithmic from the lowest to the highest of some values above
// zero, which are its ticks.
func valueAxis(values []float64) *axis {
	ticks := slices.Compact(slices.Sorted(slices.Values(values)))
	return &axis{flat: math.Log10, low: math.Log10(ticks[0]), top: math.Log10(ticks[len(ticks)-1]), ticks: ticks,
		log: true}
}

// ninesAxis is that of percentiles: every tenth part of the records that are left
// takes as much room as the one before. It has no place for 100 percent.
func ninesAxis(highest float64) *axis {
	a := &axis{flat: nines}
	for _, percent := range []float64{50, 90, 99, 99.9, 99.99, 99.999, 99.9999} {
		if percent <= highest || len(a.ticks) < 2 {
			a.ticks = append(a.ticks, percent)
		}
	}
	a.low, a.top = nines(50), max(nines(highest), nines(90))
	return a
}

func nines(percent float64) float64 { return -math.Log10(1 - percent/100) }
