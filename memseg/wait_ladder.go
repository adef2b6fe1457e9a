package memseg

import "runtime"

// The steps of a wait before the sleep: a short spin, where there is a core to
// spare for it, and one turn for other goroutines. A ring that comes within them
// costs neither side a system call.
const (
	// mostSpins is about two microseconds, half of what a sleep and a wake-up take.
	mostSpins  = 2000
	leastSpins = mostSpins / 64
)

// maySpin is false where a spinner would take the core that its peer needs.
var maySpin = runtime.NumCPU() > 2

// waitAwake reports whether the doorbell was rung since rings within the spin
// and the turn. The spin doubles while it is of use and halves while it is not.
func (d *Doorbell) waitAwake(rings uint32) bool {
	if isScheduled() {
		return false // the order of a test is decided elsewhere
	}
	if maySpin {
		d.spins = max(d.spins, leastSpins)
		for range d.spins {
			if d.futex.Load() != rings {
				d.spins = min(2*d.spins, mostSpins)
				return true
			}
		}
		d.spins /= 2
	}
	runtime.Gosched()
	return d.futex.Load() != rings
}
