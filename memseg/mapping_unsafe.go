package memseg

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapAligned maps a part of an object. One that can hold huge pages is mapped where
// the kernel can use them: at an address that is as far from a multiple of their
// size as offset is.
func mapAligned(fd int, offset int64, length, prot int) ([]byte, error) {
	huge := uintptr(HugePageSize())
	if huge == 0 || uintptr(length) < huge {
		p, err := unix.MmapPtr(fd, offset, nil, uintptr(length), prot, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		return notDumped(p, length), nil
	}
	// Addresses are reserved, with one huge page to choose from, and the rest of
	// them is given back.
	reserved := uintptr(length) + huge
	base, err := unix.MmapPtr(-1, 0, nil, reserved, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	before := (uintptr(offset) - uintptr(base)) % huge
	p := unsafe.Add(base, before)
	if _, err := unix.MmapPtr(fd, offset, p, uintptr(length), prot, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		_ = unix.MunmapPtr(base, reserved)
		return nil, err
	}
	end := before + uintptr(roundUp(int64(length), int64(os.Getpagesize())))
	if before > 0 {
		_ = unix.MunmapPtr(base, before)
	}
	if end < reserved {
		_ = unix.MunmapPtr(unsafe.Add(base, end), reserved-end)
	}
	return notDumped(p, length), nil
}

// notDumped keeps a mapping out of core dumps. The kernel reads all that it dumps,
// and so would back each page of the object that has no memory yet; what records
// hold is nobody's business either.
func notDumped(p unsafe.Pointer, length int) []byte {
	mem := unsafe.Slice((*byte)(p), length)
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP) // every kernel that has memfds knows it
	return mem
}

// coverMapping puts empty private memory in the place of a mapping of mapAligned, in
// one step: no access of another thread finds nothing there. It takes no memory but
// for what is written to it.
func coverMapping(mem []byte, access Access) error {
	prot := unix.PROT_READ
	if access == ReadWrite {
		prot |= unix.PROT_WRITE
	}
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)), prot,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// unmap ends a mapping of mapAligned.
func unmap(mem []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)))
}
