package bpf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
)

// functionOffsets returns where functions of a Go program begin in its file.
func functionOffsets(executable string, functions ...string) (map[string]uint64, error) {
	f, err := elf.Open(executable)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", executable, err)
	}
	defer f.Close()
	addresses, err := symbolAddresses(f, functions)
	if errors.Is(err, elf.ErrNoSymbols) {
		addresses, err = tableAddresses(f, functions)
	}
	if err != nil {
		return nil, fmt.Errorf("find functions of %s: %w", executable, err)
	}
	offsets := make(map[string]uint64)
	for _, name := range functions {
		address, ok := addresses[name]
		if !ok {
			return nil, fmt.Errorf("%s has no function %s", executable, name)
		}
		if offsets[name], ok = fileOffset(f, address); !ok {
			return nil, fmt.Errorf("%s does not hold the code of %s", executable, name)
		}
	}
	return offsets, nil
}

func fileOffset(f *elf.File, address uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr <= address && address-p.Vaddr < p.Filesz {
			return address - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

func symbolAddresses(f *elf.File, functions []string) (map[string]uint64, error) {
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool)
	for _, name := range functions {
		wanted[name] = true
	}
	addresses := make(map[string]uint64)
	for _, symbol := range symbols {
		if wanted[symbol.Name] && elf.ST_TYPE(symbol.Info) == elf.STT_FUNC {
			addresses[symbol.Name] = symbol.Value
		}
	}
	return addresses, nil
}

// A functionTable is the table that the runtime of a Go program finds functions in,
// as it is since Go 1.20. It stays when the symbols are stripped. Every access is
// checked, as the file may be anything.
//
//	offset  size
//	0       4     magic
//	7       1     size of a pointer, 8
//	8       8     number of functions
//	32      8     offset of the names
//	64      8     offset of the functions: for each, the offsets of its code and of
//	              what is known of it, relative to here: 4 bytes code, 4 bytes name
type functionTable struct {
	data             []byte
	names, functions uint64
	count            uint64
}

const functionTableMagic = 0xfffffff1

var errTable = errors.New("not a function table of Go 1.20 or later")

func newFunctionTable(data []byte) (*functionTable, error) {
	if len(data) < 72 || binary.LittleEndian.Uint32(data) != functionTableMagic || data[7] != 8 {
		return nil, errTable
	}
	t := &functionTable{
		data: data, count: binary.LittleEndian.Uint64(data[8:]),
		names: binary.LittleEndian.Uint64(data[32:]), functions: binary.LittleEndian.Uint64(data[64:]),
	}
	size := uint64(len(data))
	if t.names > size || t.functions > size || t.count > (size-t.functions)/8 {
		return nil, errTable
	}
	return t, nil
}

// function returns the name of the function at a place and the offset of its code.
func (t *functionTable) function(i uint64) (name []byte, code uint64, _ error) {
	at := t.functions + uint64(binary.LittleEndian.Uint32(t.data[t.functions+8*i+4:]))
	if at+8 > uint64(len(t.data)) {
		return nil, 0, errTable
	}
	nameAt := t.names + uint64(binary.LittleEndian.Uint32(t.data[at+4:]))
	if nameAt > uint64(len(t.data)) {
		return nil, 0, errTable
	}
	end := bytes.IndexByte(t.data[nameAt:], 0)
	if end < 0 {
		return nil, 0, errTable
	}
	return t.data[nameAt : nameAt+uint64(end)], uint64(binary.LittleEndian.Uint32(t.data[at:])), nil
}

// tableAddresses looks functions up in the runtime's table, which counts from the
// first Go function. A wrong place for that would put a probe into the midst of an
// instruction, so the entry point of the program must be where the table says.
func tableAddresses(f *elf.File, functions []string) (map[string]uint64, error) {
	text := f.Section(".text")
	section := f.Section(".gopclntab")
	if section == nil {
		section = f.Section(".data.rel.ro.gopclntab")
	}
	if text == nil || section == nil {
		return nil, errors.New("not a Go program")
	}
	data, err := section.Data()
	if err != nil {
		return nil, err
	}
	table, err := newFunctionTable(data)
	if err != nil {
		return nil, err
	}
	entry := fmt.Sprintf("_rt0_%s_linux", runtime.GOARCH)
	addresses := make(map[string]uint64)
	for _, name := range append([]string{entry}, functions...) {
		for i := range table.count {
			found, code, err := table.function(i)
			if err != nil {
				return nil, err
			}
			if string(found) == name {
				addresses[name] = text.Addr + code
				break
			}
		}
	}
	if addresses[entry] != f.Entry {
		return nil, errors.New("its symbols are stripped, and where its Go code begins cannot be told")
	}
	return addresses, nil
}
