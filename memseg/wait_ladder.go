package memseg

import "runtime"

// The steps of a wait before the sleep: a short spin, where there is a core to
// spare for it, and one turn for other goroutines. A ring that comes within them
// costs neither side a system call.
const (
	// mostSpins is about two microseconds, half of what a sleep and a wake-up take.
	mostSpins  = 2000
	leastSpins = mostSpins / 64

	// A turn is for a peer in the same process. To those of other processes it is
	// of no use, and costs more than the sleep when it wakes a thread, so it is left
	// out for twice as many sleeps each time, up to mostSkipped.
	mostSkipped = 63
)

// maySpin is false where a spinner would take the core that its peer needs.
var maySpin = runtime.NumCPU() > 2

// waitAwake reports whether the doorbell was rung since rings within the spin
// and the turn. Each is done more while it is of use and less while it is not.
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
	if d.skips > 0 {
		d.skips--
		return false
	}
	runtime.Gosched()
	if d.futex.Load() != rings {
		d.skipped = 0
		return true
	}
	d.skipped = min(2*d.skipped+1, mostSkipped)
	d.skips = d.skipped
	return false
}
