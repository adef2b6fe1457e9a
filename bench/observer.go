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
	// Begin is called when all workers of a round are ready and wait to begin.
	Begin(processes []Process) error
	// End is called when the workers of the round have ended, after payload bytes
	// of records got to consumers. What it returns is added to the round.
	End(payload int64) (results.Round, error)
}
