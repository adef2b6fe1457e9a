package bench

import "shuffled/bench/results"

// A Role is the part that a process has in a workload.
type Role string

// The roles.
const (
	Producer Role = "producer"
	Consumer Role = "consumer"
	Daemon   Role = "daemon"
)

// A Process is one that takes part in a workload. A daemon within this process
// has its PID.
type Process struct {
	PID  int
	Role Role
}

// An Observer watches the processes of a workload, round by round, from outside.
// One goroutine calls it.
type Observer interface {
	// Begin is called when all workers of a round with these settings are ready and
	// wait to begin. If the round fails, neither Stop nor End follows.
	Begin(s results.Settings, processes []Process) error
	// Stop is called when all workers of the round have done their work, before
	// they report it and end.
	Stop() error
	// End is called after Stop, once payload bytes of records have got to consumers.
	// What it returns is added to the round.
	End(payload int64) (results.Round, error)
}
