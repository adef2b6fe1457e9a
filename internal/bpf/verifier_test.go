package bpf

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The parts try one after the other until one attaches, so most kernels never load
// all programs.
func TestKernelAcceptsEveryProgram(t *testing.T) {
	if err := checkSupport(); err != nil {
		t.Skip(err)
	}
	spec, err := loadTracer()
	require.NoError(t, err)
	l, err := newLoader(spec)
	if errors.Is(err, unix.EPERM) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.close()) })

	load := func(name, program, function string) {
		t.Run(name, func(t *testing.T) {
			spec := spec.Programs[program].Copy()
			if function != "" {
				exists, err := l.exists(function)
				require.NoError(t, err)
				if !exists {
					t.Skipf("this kernel has no function %s", function)
				}
				spec.AttachTo = function
			}
			loaded, err := l.load(spec)
			if errors.Is(err, unix.EPERM) {
				t.Skip(err)
			}
			require.NoError(t, err)
			require.NoError(t, loaded.Close())
		})
	}
	copies := make(map[string]bool)
	for _, c := range copyFunctions {
		load("end of "+c.function, c.exit, c.function)
		load("beginning of "+c.function, c.entry, c.function)
		copies[c.exit], copies[c.entry] = true, true
	}
	for program := range spec.Programs {
		if !copies[program] {
			load(program, program, "")
		}
	}
}
