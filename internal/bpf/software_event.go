package bpf

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// softwareEvents are an event of the kernel that a program runs for each time it
// happens, on each core.
type softwareEvents struct {
	events []int // descriptors
	links  []link.Link
}

// toEveryFault returns how a program is attached to all faults of a kind, such as
// unix.PERF_COUNT_SW_PAGE_FAULTS_MIN.
func toEveryFault(event uint64) func(p *ebpf.Program) (io.Closer, error) {
	return func(p *ebpf.Program) (io.Closer, error) {
		cores, err := ebpf.PossibleCPU()
		if err != nil {
			return nil, err
		}
		s := &softwareEvents{}
		for core := range cores {
			if err := s.attach(p, event, core); err != nil {
				return nil, errors.Join(fmt.Errorf("core %d: %w", core, err), s.Close())
			}
		}
		return s, nil
	}
}

func (s *softwareEvents) attach(p *ebpf.Program, event uint64, core int) error {
	attributes := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER0, Config: event,
		Sample: 1, Bits: unix.PerfBitDisabled,
	}
	fd, err := unix.PerfEventOpen(&attributes, -1, core, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.ENODEV) {
		return nil // possible, but not there
	}
	if err != nil {
		return fmt.Errorf("open event: %w", err)
	}
	s.events = append(s.events, fd)
	attached, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: p, Attach: ebpf.AttachPerfEvent})
	if err != nil {
		return err
	}
	s.links = append(s.links, attached)
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return fmt.Errorf("enable event: %w", err)
	}
	return nil
}

// Close detaches the program from all cores.
func (s *softwareEvents) Close() (err error) {
	for _, l := range s.links {
		err = errors.Join(err, l.Close())
	}
	for _, fd := range s.events {
		err = errors.Join(err, unix.Close(fd))
	}
	return err
}
