package memseg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// HugePageSize returns how many bytes a huge page has, 0 if the kernel has none.
var HugePageSize = sync.OnceValue(func() int64 {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n < int64(os.Getpagesize()) || n&(n-1) != 0 {
		return 0
	}
	return n
})

// Collapse has the kernel put what lies in [offset, offset+HugePageSize), offset
// being a multiple of it, into one huge page, which saves all who map it most of
// the misses of their address translation. What is mapped stays so; an access
// waits meanwhile. Where parts of the range were not committed, they are now.
//
// It takes Linux 6.1 (MADV_COLLAPSE), which does so whatever the setting
// shmem_enabled says, but for "deny". ErrNoHugePages means that it will not do so
// for any range, any other error that it did not do so now, ErrNoMemory among
// them. Nothing is lost by an error.
func (m *Memfd) Collapse(offset int64) error {
	size := HugePageSize()
	if size == 0 {
		return fmt.Errorf("use a huge page for %q: %w", m.label(), ErrNoHugePages)
	}
	if offset < 0 || offset%size != 0 || offset > m.Size()-size {
		return fmt.Errorf("use a huge page for %q of %d bytes at %d, want a multiple of %d: %w", m.label(), m.Size(),
			offset, size, ErrOutOfBounds)
	}
	err := m.control(func(fd int) error {
		mem, err := mapAligned(fd, offset, int(size), unix.PROT_READ)
		if err != nil {
			return err
		}
		defer func() { _ = unmap(mem) }()
		return retryEINTR(func() error { return unix.Madvise(mem, unix.MADV_COLLAPSE) })
	})
	if errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("%w: %w", err, ErrNoHugePages)
	}
	if err != nil {
		return fmt.Errorf("use a huge page for %q at %d: %w", m.label(), offset, shortage(err))
	}
	return nil
}

// GivesHugePages reports whether the kernel is set to back shared objects with
// pages that are larger than asked for, so that more of an object can be backed
// than was committed or touched.
func GivesHugePages() bool {
	const dir = "/sys/kernel/mm/transparent_hugepage/"
	settings, _ := filepath.Glob(dir + "hugepages-*/shmem_enabled")
	for _, path := range append(settings, dir+"shmem_enabled") {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, setting := range []string{"[always]", "[within_size]", "[force]"} {
			if strings.Contains(string(b), setting) {
				return true
			}
		}
	}
	return false
}
