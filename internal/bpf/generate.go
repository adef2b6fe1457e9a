package bpf

// The programs are compiled for each architecture and committed, so that building
// this module takes no C compiler. To compile them takes clang and llvm-strip of
// LLVM 14: other versions give other bytes.

//go:generate go tool bpf2go -target amd64,arm64 -cc clang -no-global-types -type role_counters -type futex_calls -type traffic -type off_cpu tracer programs/tracer.bpf.c -- -Iheaders -Iprograms -O2 -mcpu=v3 -Wall -Werror
