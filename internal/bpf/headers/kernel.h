/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The fields of kernel structures that the programs read. The loader finds their
 * places in the running kernel by name.
 */
#ifndef SHUFFLED_KERNEL_H
#define SHUFFLED_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;

/* Part of the kernel's interface with user space: they do not change. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
};

enum {
	EBUSY = 16,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};

enum {
	FUTEX_WAIT = 0,
	FUTEX_WAKE = 1,
	FUTEX_WAKE_OP = 5,
	FUTEX_LOCK_PI = 6,
	FUTEX_UNLOCK_PI = 7,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_WAKE_BITSET = 10,
	FUTEX_WAIT_REQUEUE_PI = 11,
	FUTEX_LOCK_PI2 = 13,
	FUTEX_PRIVATE_FLAG = 128,
	FUTEX_CLOCK_REALTIME = 256,
	FUTEX2_PRIVATE = 128,
};

enum {
	S_IFMT = 0xf000,
	S_IFIFO = 0x1000,
	S_IFREG = 0x8000,
	S_IFSOCK = 0xc000,
	TMPFS_MAGIC = 0x01021994,
	HUGETLBFS_MAGIC = 0x958458f6,
};

enum {
	AF_UNIX = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	SOCK_STREAM = 1,
	IPPROTO_TCP = 6,
};

/* Values of task_struct.__state: stopped by a signal or a debugger, and for good. */
enum {
	TASK_STOPPED = 0x4,
	TASK_TRACED = 0x8,
	TASK_DEAD = 0x80,
};

/* The context of a program on a perf event: part of the interface with user space too. */
struct bpf_perf_event_data {
#if defined(__TARGET_ARCH_x86)
	__u64 regs[21];
#define IN_USER_MODE(data) (((data)->regs[17] & 3) == 3) /* cs */
#elif defined(__TARGET_ARCH_arm64)
	__u64 regs[34];
#define IN_USER_MODE(data) (((data)->regs[33] & 15) == 0) /* pstate */
#endif
	__u64 sample_period;
	__u64 addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r10, r8, r9, ax, bx, cx, dx, si, di;
};
#define SYSCALL_ARGUMENT_1(regs) ((regs)->di)
#define SYSCALL_ARGUMENT_2(regs) ((regs)->si)
#define SYSCALL_ARGUMENT_4(regs) ((regs)->r10)
#define C_ARGUMENT_2(regs) ((regs)->si)
#define C_ARGUMENT_3(regs) ((regs)->dx)
#define C_ARGUMENT_4(regs) ((regs)->cx)
#define GO_ARGUMENT_1(regs) ((regs)->ax)
#define GO_ARGUMENT_2(regs) ((regs)->bx)
#define GO_ARGUMENT_3(regs) ((regs)->cx)
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
};
#define SYSCALL_ARGUMENT_1(r) ((r)->regs[0])
#define SYSCALL_ARGUMENT_2(r) ((r)->regs[1])
#define SYSCALL_ARGUMENT_4(r) ((r)->regs[3])
#define C_ARGUMENT_2(r) ((r)->regs[1])
#define C_ARGUMENT_3(r) ((r)->regs[2])
#define C_ARGUMENT_4(r) ((r)->regs[3])
#define GO_ARGUMENT_1(r) ((r)->regs[0])
#define GO_ARGUMENT_2(r) ((r)->regs[1])
#define GO_ARGUMENT_3(r) ((r)->regs[2])
#else
#error "the registers of this architecture are not known"
#endif

struct super_block {
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
};

struct sock_common {
	unsigned short skc_family;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
};

struct socket {
	short type;
	struct sock *sk;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	int pid;
	int tgid;
	struct files_struct *files;
};

struct vm_area_struct {
	struct file *vm_file;
};

struct iov_iter {
	__u8 iter_type;
};

#pragma clang attribute pop

/* The values of this are looked up by name too. */
enum iter_type {
	ITER_UBUF,
	ITER_IOVEC,
};

#endif
