package bpf

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionsOfKernels(t *testing.T) {
	for release, older := range map[string]bool{
		"6.1.0-31-cloud-amd64": false, "6.0.19": true, "5.15.0-1060-aws": true, "6.18.44-fc": false, "10.0": false,
		"what": false, "": false,
	} {
		require.Equal(t, older, isOlder(release, oldestKernel), release)
	}
}

// openChild is set for this binary when it is to say what Open returns.
const openChild = "SHUFFLED_BPF_OPEN"

func init() {
	if os.Getenv(openChild) == "" {
		return
	}
	tracer, err := Open(Options{})
	if err == nil {
		err = tracer.Close()
	}
	if errors.Is(err, ErrUnsupported) {
		_, _ = os.Stdout.WriteString("unsupported: ")
	}
	if err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
	}
	os.Exit(0)
}

func openInChild(t *testing.T, attributes *syscall.SysProcAttr) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), openChild+"=1")
	cmd.SysProcAttr = attributes
	output, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("cannot start such a process: ", err)
	}
	require.NoError(t, err, "%s", output)
	return string(output)
}

func TestOpenSaysWhichRightsAreMissing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	output := openInChild(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	require.True(t, strings.HasPrefix(output, "unsupported: "), output)
	require.Contains(t, output, "CAP_BPF and CAP_PERFMON")
}

func TestOpenSaysThatPidsAreNotThoseOfTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a pid namespace")
	}
	output := openInChild(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	if !strings.Contains(output, "pid namespace") && strings.HasPrefix(output, "unsupported: ") {
		t.Skip(output)
	}
	require.True(t, strings.HasPrefix(output, "unsupported: "), output)
	require.Contains(t, output, "pid namespace")
}
