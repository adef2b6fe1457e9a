// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The programs that count what exchanging data costs: see state.h. */
#include "kernel.h"
#include "bpf_helpers.h"
#include "bpf_core_read.h"

#include "state.h"
#include "syscalls.h"
#include "copies.h"
#include "scheduling.h"
#include "faults.h"
#include "handoff.h"

char __license[] SEC("license") = "Dual MIT/GPL";
