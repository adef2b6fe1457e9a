package bench

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// maxCores is how many cores a unix.CPUSet has.
const maxCores = 1024

// coresToPin returns the cores that this process may use, by number, if there
// are at least two: workers that spin on one core would only take turns.
func coresToPin() (cores []int, err error) {
	var usable unix.CPUSet
	if err := unix.SchedGetaffinity(0, &usable); err != nil {
		return nil, fmt.Errorf("find cores to pin workers to: %w", err)
	}
	for core := range maxCores {
		if usable.IsSet(core) {
			cores = append(cores, core)
		}
	}
	if len(cores) < 2 {
		return nil, errors.New("pin workers: this process may use a single core, want at least two: leave out --pin")
	}
	return cores, nil
}

// startOnCore calls start, which starts a process. That may then use the given
// core only, with all its threads.
func startOnCore(core int, start func() error) (err error) {
	// A process is born with the cores of the thread that makes it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("pin to core %d: %w", core, err)
	}
	only.Set(core)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("pin to core %d: %w", core, err)
	}
	defer func() {
		if restoring := unix.SchedSetaffinity(0, &before); restoring != nil {
			err = errors.Join(err, fmt.Errorf("unpin this program from core %d: %w", core, restoring))
		}
	}()
	return start()
}
