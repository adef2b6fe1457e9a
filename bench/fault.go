package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Fault is something that goes wrong on purpose in one worker, so that tests
// can see it noticed.
type Fault string

const (
	NoFault Fault = ""
	// FlipByte has the first producer flip a bit of its thousandth record.
	FlipByte Fault = "flip-byte"
	// Miscount has the first consumer count one word too many.
	Miscount Fault = "miscount"
	// DieProducing and DieConsuming kill the first producer or consumer in the
	// middle of its work.
	DieProducing Fault = "die-producing"
	DieConsuming Fault = "die-consuming"
	// FailProducing has the first producer end with an error.
	FailProducing Fault = "fail-producing"
)

// InRound returns the fault as one that happens in a single round of several,
// counted from 1.
func (f Fault) InRound(round int) Fault { return Fault(fmt.Sprintf("%s@%d", f, round)) }

// in returns what goes wrong in a round.
func (f Fault) in(round int) Fault {
	fault, only, single := strings.Cut(string(f), "@")
	if single && only != strconv.Itoa(round) {
		return NoFault
	}
	return Fault(fault)
}

// lasting returns for how long the producers send in a round of d: if something is to
// go wrong, until it has, however slow the machine is.
func (f Fault) lasting(d time.Duration) time.Duration {
	if f == NoFault {
		return d
	}
	return max(d, time.Hour)
}

// faultAfter is how many records go well before a fault.
const faultAfter = 1000

// die ends this process as a crash would.
func die() { _ = unix.Kill(os.Getpid(), unix.SIGKILL) }
