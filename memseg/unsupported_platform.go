//go:build !linux || !(amd64 || arm64 || loong64 || mips64le || ppc64le || riscv64)

package memseg

// Regions hold little-endian 64-bit words that each process loads and stores as
// they are, and sizes that need 64 bits; memory is shared by Linux's memfd.
var _ = memseg_needs_linux_on_a_64_bit_little_endian_processor
