package daemon

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// CheckHost tries what a server with this config needs of the host, on objects that
// it makes for that, and returns the steps up to the first that is refused. The error
// of a step names the system call and what probably forbids it. NewServer does so
// too, so that what cannot work is known before there is a client.
func CheckHost(config Config) ([]memseg.HostStep, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	largest, err := config.largestRegion()
	if err != nil {
		return nil, err
	}
	steps := memseg.CheckHost(largest, config.Isolation == StrictIsolation)
	if last := &steps[len(steps)-1]; last.Err != nil {
		last.Err = explainRefusal(last.Err)
		return steps, nil
	}
	err = sendToSelf()
	if err != nil {
		err = explainRefusal(err)
	}
	return append(steps, memseg.HostStep{Does: "send a message with a descriptor over a socket", Err: err}), nil
}

// checkHost is CheckHost for those who want one error.
func checkHost(config Config) error {
	steps, err := CheckHost(config)
	if err != nil {
		return err
	}
	if last := steps[len(steps)-1]; last.Err != nil {
		return fmt.Errorf("this host refuses what shared memory needs: %w", last.Err)
	}
	return nil
}

// largestRegion is the size of a partition that may have all of the memory.
func (c *Config) largestRegion() (int64, error) {
	segments := min(c.Memory/int64(c.SegmentSize), maxSegments)
	layout, err := memseg.NewPartitionLayout(uint32(shuffle.Pipelined), shuffle.PartitionID{}, 0, 1, int(segments),
		c.SegmentSize)
	if err != nil {
		return 0, fmt.Errorf("largest region: %w", err)
	}
	return layout.RegionSize(), nil
}

// sendToSelf sends a descriptor over a connection of this process with itself.
func sendToSelf() (err error) {
	a, b, err := ipc.Pair()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close(), b.Close()) }()
	if _, err := a.Peer(); err != nil {
		return err
	}
	object, err := memseg.CreateMemfd("shuffled-check", int64(os.Getpagesize()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	fd, err := object.ReopenReadOnly()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.NewSyscallError("close", unix.Close(fd))) }()
	switch err := a.Send(&controlpb.ServerMessage{RequestId: 1}, fd); {
	case errors.Is(err, unix.ETOOMANYREFS):
		return nil // other processes of this user have too many on their way just now
	case err != nil:
		return err
	}
	var msg controlpb.ServerMessage
	fds, err := b.Receive(&msg)
	if err != nil {
		return err
	}
	defer fds.Close()
	return fds.Expect(1, "message to itself")
}

// explainRefusal adds the name of the error and what probably forbids the call.
func explainRefusal(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}
	call := "it"
	var failed *os.SyscallError
	if errors.As(err, &failed) {
		call = failed.Syscall
	}
	return fmt.Errorf("%w (%s): %s", err, unix.ErrnoName(errno), refusalCause(call, errno))
}

func refusalCause(call string, errno unix.Errno) string {
	onProc := strings.Contains(call, "/proc")
	switch {
	case errno == unix.EFBIG:
		return fmt.Sprintf("RLIMIT_FSIZE is %s, raise it (ulimit -f unlimited, systemd: LimitFSIZE=infinity) or lower the memory", fileSizeLimit())
	case errno == unix.EMFILE:
		return "RLIMIT_NOFILE is too low, raise it (ulimit -n, systemd: LimitNOFILE=)"
	case errno == unix.ENFILE:
		return "fs.file-max of the host is reached"
	case errno == unix.ENOMEM || errno == unix.ENOSPC:
		return "the memory cgroup or the machine has no page left, or RLIMIT_AS is too low"
	case onProc && (errno == unix.ENOENT || errno == unix.ENOTDIR):
		return "/proc is not mounted here, mount it (a chroot needs one too)"
	case onProc:
		return "/proc/self/fd is masked by the container runtime or forbidden by a security module (AppArmor, SELinux)"
	case call == "memfd_create" && errno == unix.EACCES:
		return "vm.memfd_noexec=2 with a kernel that has no MFD_NOEXEC_SEAL, or a security module (AppArmor, SELinux) forbids it"
	case errno == unix.EINVAL || errno == unix.EOPNOTSUPP:
		return "the kernel does not know it: Linux 5.10 or newer is needed (gVisor and other sandboxes may lack it)"
	}
	return "probably a seccomp profile (container runtime; systemd: SystemCallFilter=) or a security module (AppArmor, SELinux) forbids it: allow " + call
}

func fileSizeLimit() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return "unknown"
	}
	return strconv.FormatUint(limit.Cur, 10) + " bytes"
}
