//go:build !linux || !(amd64 || arm64)

package bpf

// The programs run in the Linux kernel and are compiled for these architectures.
var _ = bpf_needs_linux_on_amd64_or_arm64
