package bpf

import (
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// The parts that attach each on their own: the values of [Missing.Part].
const (
	// PartSyscalls gives RoleCounts.Syscalls, Returned, Channels and Futex. Without it,
	// every reason to leave a core but preemption is OffOther.
	PartSyscalls = "system calls"
	// PartSwitches gives RoleCounts.Switches.
	PartSwitches = "context switches"
	// PartWakes gives Counts.Wakes, and with PartSwitches RoleCounts.WakeLatency.
	PartWakes = "wake-ups"
	// PartTimers tells wake-ups by timers from those by the process that a timer
	// interrupts. Without it they are counted as that process's.
	PartTimers = "wake-ups by timers"
	// PartFaults gives RoleCounts.Faults.
	PartFaults = "page faults"
	// PartCopies gives RoleCounts.Copied by the best source, CopyFunctions. Without
	// it, which is usual, Counts.CopySource says what the figure is.
	PartCopies = "copy functions"
	// PartHandoff gives Counts.Handoff.
	PartHandoff = "hand-offs"
)

// A Missing is a part that could not be attached. Its figures are nil, except where
// the constant of the part says otherwise.
type Missing struct {
	// Part is one of the Part constants.
	Part string
	// Err says why.
	Err error
}

// String returns the part and why it is missing.
func (m Missing) String() string { return fmt.Sprintf("%s: %v", m.Part, m.Err) }

// attachments say which parts are there.
type attachments struct {
	syscalls, switches, wakes, faults, handoff bool
	copySource                                 CopySource
	missing                                    []Missing
}

// try attaches the hooks of a part and reports whether it is there.
func (a *attachments) try(l *loader, part string, hooks ...hook) bool {
	if err := l.attach(hooks...); err != nil {
		a.missing = append(a.missing, Missing{part, err})
		return false
	}
	return true
}

func attachParts(l *loader, executable string) *attachments {
	a := &attachments{}
	// The thread states that the others look at come first.
	a.syscalls = a.try(l, PartSyscalls, hook{program: tracerProgSyscallLeft}, hook{program: tracerProgSyscallEntered})
	a.faults = a.try(l, PartFaults,
		hook{program: tracerProgFaultedMinor, attach: toEveryFault(unix.PERF_COUNT_SW_PAGE_FAULTS_MIN)},
		hook{program: tracerProgFaultedMajor, attach: toEveryFault(unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ)})
	// The end of a timer whose beginning was not seen is ignored.
	a.try(l, PartTimers, hook{program: tracerProgTimerEnds}, hook{program: tracerProgTimerBegins})
	a.switches = a.try(l, PartSwitches, hook{program: tracerProgSwitched})
	a.wakes = a.try(l, PartWakes, hook{program: tracerProgWaking})
	a.attachCopies(l)
	if executable != "" {
		a.attachHandoff(l, executable)
	}
	return a
}

// copyFunctions are the kernel functions that copy between kernel and user memory,
// none of which calls another. What the kernel lacks of the optional ones it does
// not need.
var copyFunctions = []struct {
	function string
	optional bool
	// exit and entry are the programs for the end and the beginning of the function.
	exit, entry string
}{
	{"_copy_to_iter", false, tracerProgCopiedToUser, tracerProgRequestedToUser},
	{"_copy_from_iter", false, tracerProgCopiedFromUser, tracerProgRequestedFromUser},
	{"copy_folio_from_iter_atomic", true, tracerProgCopiedFromUser4, tracerProgRequestedFromUser4},
	// its name in older kernels
	{"copy_page_from_iter_atomic", true, tracerProgCopiedFromUser4, tracerProgRequestedFromUser4},
	{"_copy_from_iter_nocache", true, tracerProgCopiedFromUser, tracerProgRequestedFromUser},
	{"csum_and_copy_from_iter_full", true, tracerProgCopiedFromUserFull, tracerProgRequestedFromUserFull},
	{"csum_and_copy_to_iter", true, tracerProgCopiedToUser4, tracerProgRequestedToUser4},
	{"_copy_mc_to_iter", true, tracerProgCopiedToUser, tracerProgRequestedToUser},
	{"_copy_from_iter_flushcache", true, tracerProgCopiedFromUser, tracerProgRequestedFromUser},
}

func (a *attachments) attachCopies(l *loader) {
	var functions, requests []hook
	for _, c := range copyFunctions {
		if exists, err := l.exists(c.function); c.optional && err == nil && !exists {
			continue
		}
		functions = append(functions, hook{program: c.exit, function: c.function})
		requests = append(requests, hook{
			program: c.entry, function: c.function,
			attach: func(p *ebpf.Program) (io.Closer, error) { return link.Kprobe(c.function, p, nil) },
		})
	}
	err := l.attach(functions...)
	if err == nil {
		a.copySource = CopyFunctions
		return
	}
	probeErr := l.attach(requests...)
	if probeErr == nil {
		a.copySource = CopyRequests
	} else {
		err = fmt.Errorf("%w; %w", err, probeErr)
		if a.syscalls {
			a.copySource = CopyReturns
		}
	}
	a.missing = append(a.missing, Missing{PartCopies, err})
}

// The functions that the hand-off of a buffer passes.
const (
	publishSymbol = "shuffled/internal/probe.Publish"
	consumeSymbol = "shuffled/internal/probe.Consume"
)

func (a *attachments) attachHandoff(l *loader, executable string) {
	offsets, err := functionOffsets(executable, publishSymbol, consumeSymbol)
	if err != nil {
		a.missing = append(a.missing, Missing{PartHandoff, err})
		return
	}
	file, err := link.OpenExecutable(executable)
	if err != nil {
		a.missing = append(a.missing, Missing{PartHandoff, err})
		return
	}
	at := func(symbol string) func(p *ebpf.Program) (io.Closer, error) {
		return func(p *ebpf.Program) (io.Closer, error) {
			return file.Uprobe(symbol, p, &link.UprobeOptions{Address: offsets[symbol]})
		}
	}
	a.handoff = a.try(l, PartHandoff,
		hook{program: tracerProgBufferConsumed, attach: at(consumeSymbol)},
		hook{program: tracerProgBufferPublished, attach: at(publishSymbol)})
}
