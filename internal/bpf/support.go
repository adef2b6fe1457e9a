package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// oldestKernel is the first long-term kernel that has what the programs use.
var oldestKernel = [2]int{6, 1}

// initialPIDNamespace is the inode of /proc/self/ns/pid in the namespace whose
// numbers the programs see (PROC_PID_INIT_INO).
const initialPIDNamespace = "pid:[4026531836]"

// unsupported returns an error that matches ErrUnsupported.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnsupported, fmt.Errorf(format, args...))
}

// checkSupport says what can be told to be missing before anything is loaded.
func checkSupport() error {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return fmt.Errorf("read kernel version: %w", err)
	}
	release := unix.ByteSliceToString(uts.Release[:])
	if isOlder(release, oldestKernel) {
		return unsupported("Linux %s is older than %d.%d", release, oldestKernel[0], oldestKernel[1])
	}
	missing, err := missingCapabilities()
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return unsupported("run as root, or with %s", strings.Join(missing, " and "))
	}
	if mode, err := os.ReadFile("/sys/kernel/security/lockdown"); err == nil &&
		bytes.Contains(mode, []byte("[confidentiality]")) {
		return unsupported("kernel lockdown is in confidentiality mode, which keeps programs from reading kernel memory")
	}
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err == nil && namespace != initialPIDNamespace {
		return unsupported("this process is in the pid namespace %s, where pids are not those that the kernel sees",
			namespace)
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); errors.Is(err, os.ErrNotExist) {
		return unsupported("the kernel does not describe its types: no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)")
	}
	return nil
}

// isOlder reports whether a release such as "6.18.44-1-amd64" comes before a
// version. One that cannot be read does not.
func isOlder(release string, version [2]int) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return major < version[0] || major == version[0] && minor < version[1]
}

// missingCapabilities names the capabilities that this thread would need.
func missingCapabilities() ([]string, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil, fmt.Errorf("read capabilities: %w", err)
	}
	has := func(capability int) bool { return data[capability/32].Effective&(1<<(capability%32)) != 0 }
	if has(unix.CAP_SYS_ADMIN) {
		return nil, nil
	}
	var missing []string
	for _, c := range []struct {
		number int
		name   string
	}{{unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}} {
		if !has(c.number) {
			missing = append(missing, c.name)
		}
	}
	return missing, nil
}
