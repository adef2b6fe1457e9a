package memseg

import (
	"encoding/binary"
	"math"
)

// The scalar operations. An access of width bytes is legal at every index from 0
// to Size-width; what is refused, and with which error, stands at MemorySegment.
// A signed integer is the conversion of the unsigned one of its width. Without a
// suffix the byte order is the machine's; LE and BE name it. Floats keep all
// their bits, so the payload of a NaN survives.
//
// Each operation tests its index once and does not allocate unless it fails; it
// is meant to be inlined into its caller and to become one load or store there.

// GetByte returns the byte at index.
func (s *MemorySegment) GetByte(index int) (byte, error) {
	if index < 0 || index >= len(s.mem) {
		return 0, s.refuse("get byte", index, 1)
	}
	return s.mem[index], nil
}

// PutByte stores v at index.
func (s *MemorySegment) PutByte(index int, v byte) error {
	if index < 0 || index >= len(s.mem) {
		return s.refuse("put byte", index, 1)
	}
	s.mem[index] = v
	return nil
}

// GetBool reports whether the byte at index is anything but 0.
func (s *MemorySegment) GetBool(index int) (bool, error) {
	if index < 0 || index >= len(s.mem) {
		return false, s.refuse("get bool", index, 1)
	}
	return s.mem[index] != 0, nil
}

// PutBool stores the byte 1 for true and 0 for false at index.
func (s *MemorySegment) PutBool(index int, v bool) error {
	if index < 0 || index >= len(s.mem) {
		return s.refuse("put bool", index, 1)
	}
	var b byte
	if v {
		b = 1
	}
	s.mem[index] = b
	return nil
}

// GetUint16 returns the 2 bytes at index, read in the byte order of the machine.
func (s *MemorySegment) GetUint16(index int) (uint16, error) {
	if index < 0 || index > len(s.mem)-2 {
		return 0, s.refuse("get uint16", index, 2)
	}
	return binary.NativeEndian.Uint16(s.mem[index:]), nil
}

// PutUint16 stores v at index in the byte order of the machine.
func (s *MemorySegment) PutUint16(index int, v uint16) error {
	if index < 0 || index > len(s.mem)-2 {
		return s.refuse("put uint16", index, 2)
	}
	binary.NativeEndian.PutUint16(s.mem[index:], v)
	return nil
}

// GetUint16LE returns the 2 bytes at index, read in little-endian order.
func (s *MemorySegment) GetUint16LE(index int) (uint16, error) {
	if index < 0 || index > len(s.mem)-2 {
		return 0, s.refuse("get uint16", index, 2)
	}
	return binary.LittleEndian.Uint16(s.mem[index:]), nil
}

// PutUint16LE stores v at index in little-endian order.
func (s *MemorySegment) PutUint16LE(index int, v uint16) error {
	if index < 0 || index > len(s.mem)-2 {
		return s.refuse("put uint16", index, 2)
	}
	binary.LittleEndian.PutUint16(s.mem[index:], v)
	return nil
}

// GetUint16BE returns the 2 bytes at index, read in big-endian order.
func (s *MemorySegment) GetUint16BE(index int) (uint16, error) {
	if index < 0 || index > len(s.mem)-2 {
		return 0, s.refuse("get uint16", index, 2)
	}
	return binary.BigEndian.Uint16(s.mem[index:]), nil
}

// PutUint16BE stores v at index in big-endian order.
func (s *MemorySegment) PutUint16BE(index int, v uint16) error {
	if index < 0 || index > len(s.mem)-2 {
		return s.refuse("put uint16", index, 2)
	}
	binary.BigEndian.PutUint16(s.mem[index:], v)
	return nil
}

// GetUint32 returns the 4 bytes at index, read in the byte order of the machine.
func (s *MemorySegment) GetUint32(index int) (uint32, error) {
	if index < 0 || index > len(s.mem)-4 {
		return 0, s.refuse("get uint32", index, 4)
	}
	return binary.NativeEndian.Uint32(s.mem[index:]), nil
}

// PutUint32 stores v at index in the byte order of the machine.
func (s *MemorySegment) PutUint32(index int, v uint32) error {
	if index < 0 || index > len(s.mem)-4 {
		return s.refuse("put uint32", index, 4)
	}
	binary.NativeEndian.PutUint32(s.mem[index:], v)
	return nil
}

// GetUint32LE returns the 4 bytes at index, read in little-endian order.
func (s *MemorySegment) GetUint32LE(index int) (uint32, error) {
	if index < 0 || index > len(s.mem)-4 {
		return 0, s.refuse("get uint32", index, 4)
	}
	return binary.LittleEndian.Uint32(s.mem[index:]), nil
}

// PutUint32LE stores v at index in little-endian order.
func (s *MemorySegment) PutUint32LE(index int, v uint32) error {
	if index < 0 || index > len(s.mem)-4 {
		return s.refuse("put uint32", index, 4)
	}
	binary.LittleEndian.PutUint32(s.mem[index:], v)
	return nil
}

// GetUint32BE returns the 4 bytes at index, read in big-endian order.
func (s *MemorySegment) GetUint32BE(index int) (uint32, error) {
	if index < 0 || index > len(s.mem)-4 {
		return 0, s.refuse("get uint32", index, 4)
	}
	return binary.BigEndian.Uint32(s.mem[index:]), nil
}

// PutUint32BE stores v at index in big-endian order.
func (s *MemorySegment) PutUint32BE(index int, v uint32) error {
	if index < 0 || index > len(s.mem)-4 {
		return s.refuse("put uint32", index, 4)
	}
	binary.BigEndian.PutUint32(s.mem[index:], v)
	return nil
}

// GetUint64 returns the 8 bytes at index, read in the byte order of the machine.
func (s *MemorySegment) GetUint64(index int) (uint64, error) {
	if index < 0 || index > len(s.mem)-8 {
		return 0, s.refuse("get uint64", index, 8)
	}
	return binary.NativeEndian.Uint64(s.mem[index:]), nil
}

// PutUint64 stores v at index in the byte order of the machine.
func (s *MemorySegment) PutUint64(index int, v uint64) error {
	if index < 0 || index > len(s.mem)-8 {
		return s.refuse("put uint64", index, 8)
	}
	binary.NativeEndian.PutUint64(s.mem[index:], v)
	return nil
}

// GetUint64LE returns the 8 bytes at index, read in little-endian order.
func (s *MemorySegment) GetUint64LE(index int) (uint64, error) {
	if index < 0 || index > len(s.mem)-8 {
		return 0, s.refuse("get uint64", index, 8)
	}
	return binary.LittleEndian.Uint64(s.mem[index:]), nil
}

// PutUint64LE stores v at index in little-endian order.
func (s *MemorySegment) PutUint64LE(index int, v uint64) error {
	if index < 0 || index > len(s.mem)-8 {
		return s.refuse("put uint64", index, 8)
	}
	binary.LittleEndian.PutUint64(s.mem[index:], v)
	return nil
}

// GetUint64BE returns the 8 bytes at index, read in big-endian order.
func (s *MemorySegment) GetUint64BE(index int) (uint64, error) {
	if index < 0 || index > len(s.mem)-8 {
		return 0, s.refuse("get uint64", index, 8)
	}
	return binary.BigEndian.Uint64(s.mem[index:]), nil
}

// PutUint64BE stores v at index in big-endian order.
func (s *MemorySegment) PutUint64BE(index int, v uint64) error {
	if index < 0 || index > len(s.mem)-8 {
		return s.refuse("put uint64", index, 8)
	}
	binary.BigEndian.PutUint64(s.mem[index:], v)
	return nil
}

// GetFloat32 returns the 4 bytes at index, read in the byte order of the machine.
func (s *MemorySegment) GetFloat32(index int) (float32, error) {
	if index < 0 || index > len(s.mem)-4 {
		return 0, s.refuse("get float32", index, 4)
	}
	return math.Float32frombits(binary.NativeEndian.Uint32(s.mem[index:])), nil
}

// PutFloat32 stores v at index in the byte order of the machine.
func (s *MemorySegment) PutFloat32(index int, v float32) error {
	if index < 0 || index > len(s.mem)-4 {
		return s.refuse("put float32", index, 4)
	}
	binary.NativeEndian.PutUint32(s.mem[index:], math.Float32bits(v))
	return nil
}

// GetFloat32LE returns the 4 bytes at index, read in little-endian order.
func (s *MemorySegment) GetFloat32LE(index int) (float32, error) {
	if index < 0 || index > len(s.mem)-4 {
		return 0, s.refuse("get float32", index, 4)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(s.mem[index:])), nil
}

// PutFloat32LE stores v at index in little-endian order.
func (s *MemorySegment) PutFloat32LE(index int, v float32) error {
	if index < 0 || index > len(s.mem)-4 {
		return s.refuse("put float32", index, 4)
	}
	binary.LittleEndian.PutUint32(s.mem[index:], math.Float32bits(v))
	return nil
}

// GetFloat32BE returns the 4 bytes at index, read in big-endian order.
func (s *MemorySegment) GetFloat32BE(index int) (float32, error) {
	if index < 0 || index > len(s.mem)-4 {
		return 0, s.refuse("get float32", index, 4)
	}
	return math.Float32frombits(binary.BigEndian.Uint32(s.mem[index:])), nil
}

// PutFloat32BE stores v at index in big-endian order.
func (s *MemorySegment) PutFloat32BE(index int, v float32) error {
	if index < 0 || index > len(s.mem)-4 {
		return s.refuse("put float32", index, 4)
	}
	binary.BigEndian.PutUint32(s.mem[index:], math.Float32bits(v))
	return nil
}

// GetFloat64 returns the 8 bytes at index, read in the byte order of the machine.
func (s *MemorySegment) GetFloat64(index int) (float64, error) {
	if index < 0 || index > len(s.mem)-8 {
		return 0, s.refuse("get float64", index, 8)
	}
	return math.Float64frombits(binary.NativeEndian.Uint64(s.mem[index:])), nil
}

// PutFloat64 stores v at index in the byte order of the machine.
func (s *MemorySegment) PutFloat64(index int, v float64) error {
	if index < 0 || index > len(s.mem)-8 {
		return s.refuse("put float64", index, 8)
	}
	binary.NativeEndian.PutUint64(s.mem[index:], math.Float64bits(v))
	return nil
}

// GetFloat64LE returns the 8 bytes at index, read in little-endian order.
func (s *MemorySegment) GetFloat64LE(index int) (float64, error) {
	if index < 0 || index > len(s.mem)-8 {
		return 0, s.refuse("get float64", index, 8)
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(s.mem[index:])), nil
}

// PutFloat64LE stores v at index in little-endian order.
func (s *MemorySegment) PutFloat64LE(index int, v float64) error {
	if index < 0 || index > len(s.mem)-8 {
		return s.refuse("put float64", index, 8)
	}
	binary.LittleEndian.PutUint64(s.mem[index:], math.Float64bits(v))
	return nil
}

// GetFloat64BE returns the 8 bytes at index, read in big-endian order.
func (s *MemorySegment) GetFloat64BE(index int) (float64, error) {
	if index < 0 || index > len(s.mem)-8 {
		return 0, s.refuse("get float64", index, 8)
	}
	return math.Float64frombits(binary.BigEndian.Uint64(s.mem[index:])), nil
}

// PutFloat64BE stores v at index in big-endian order.
func (s *MemorySegment) PutFloat64BE(index int, v float64) error {
	if index < 0 || index > len(s.mem)-8 {
		return s.refuse("put float64", index, 8)
	}
	binary.BigEndian.PutUint64(s.mem[index:], math.Float64bits(v))
	return nil
}
