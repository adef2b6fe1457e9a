package bench

import "io"

// An Environment is what every workload runs in, and tells.
type Environment struct {
	// Socket is that of the daemon; one is started if it is empty and needed.
	Socket   string
	Launcher Launcher
	// Observer watches the workers, unless it is nil or they are no processes.
	Observer Observer
	// Out gets what is measured as it comes, Progress what happens meanwhile, which
	// may be shown to people only; it may be nil.
	Out, Progress io.Writer
	// Fault is what goes wrong on purpose.
	Fault Fault
}
