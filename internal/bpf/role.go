package bpf

import "fmt"

// A Role is the part that a process plays in a shuffle.
type Role uint8

// Other is every process that is not watched: it takes part in wake-ups only.
const (
	Other Role = iota
	Producer
	Consumer
	Daemon
)

// Roles is the number of roles.
const Roles = 4

var roleNames = [Roles]string{"other", "producer", "consumer", "daemon"}

// String returns the role in lower case.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}
