/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* System calls: their numbers, what they move through which descriptors, and futexes. */
#ifndef SHUFFLED_SYSCALLS_H
#define SHUFFLED_SYSCALLS_H

enum {
	CALL_PLAIN,
	CALL_READS,
	CALL_WRITES,
	CALL_SPLICES,
	CALL_PEEKS, /* reads memory of another process */
	CALL_POKES,
	CALL_FUTEX,
	CALL_FUTEX_WAITV,
	CALL_FUTEX_WAIT,
	CALL_FUTEX_WAKE,
	CALL_FUTEX_REQUEUE,
};

/* What a call of the running architecture does, by number. Set when loaded. */
const volatile __u8 call_kind[SYSCALLS];
/* Why a thread leaves its core in it: OFF_ of state.h. */
const volatile __u8 call_reason[SYSCALLS];

/* What the current call does with a futex. */
enum {
	FUTEX_NONE,
	FUTEX_WAITS,
	FUTEX_WAKES,
	FUTEX_OTHER,
};

static __always_inline int futex_operation(__u32 operation)
{
	switch (operation & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return FUTEX_WAITS;
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_WAKE_OP:
	case FUTEX_UNLOCK_PI:
		return FUTEX_WAKES;
	}
	return FUTEX_OTHER;
}

static __always_inline struct futex_calls *futexes(struct role_counters *c, struct thread *t)
{
	return t->private_futex ? &c->futex_private : &c->futex_shared;
}

#define READ(to, from) bpf_probe_read_kernel(&(to), sizeof(to), &(from))

static __always_inline __u8 channel_of_socket(struct socket *socket)
{
	struct sock *sock = NULL;
	__u16 family = 0, protocol = 0;
	short type = 0;

	READ(type, socket->type);
	READ(sock, socket->sk);
	READ(family, sock->__sk_common.skc_family);
	READ(protocol, sock->sk_protocol);
	if (family == AF_UNIX)
		return type == SOCK_STREAM ? UNIX_STREAM : UNIX_PACKET;
	if ((family == AF_INET || family == AF_INET6) && protocol == IPPROTO_TCP)
		return TCP;
	return OTHER_CHANNEL;
}

/* Tells what a descriptor of the current process leads to. */
static __always_inline __u8 channel_of(struct task_struct *me, __u32 descriptor)
{
	struct fdtable *table = me->files->fdt;
	struct super_block *super = NULL;
	struct inode *inode = NULL;
	struct file *file = NULL;
	void *socket = NULL;
	unsigned long magic = 0;
	__u16 mode = 0;

	if (descriptor >= table->max_fds)
		return OTHER_CHANNEL;
	READ(file, table->fd[descriptor]);
	if (!file)
		return OTHER_CHANNEL;
	READ(inode, file->f_inode);
	READ(mode, inode->i_mode);
	switch (mode & S_IFMT) {
	case S_IFIFO:
		return PIPE;
	case S_IFSOCK:
		READ(socket, file->private_data);
		return channel_of_socket(socket);
	case S_IFREG:
		READ(super, inode->i_sb);
		READ(magic, super->s_magic);
		return magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC ? SHMEM : FILE;
	}
	return OTHER_CHANNEL;
}

static __always_inline void moved(struct role_counters *c, __u32 channel, int direction, __s64 bytes)
{
	struct traffic *t;

	if (channel >= CHANNELS)
		return;
	t = &c->channels[channel * DIRECTIONS + direction];
	ADD(t->calls, 1);
	if (bytes > 0)
		ADD(t->bytes, bytes);
	else
		ADD(t->empty, 1);
}

SEC("tp_btf/sys_enter")
int syscall_entered(__u64 *ctx)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)ctx[0];
	struct role_counters *c = my_counters();
	__u64 number = ctx[1];
	struct futex_calls *f;
	struct thread *t;

	if (!c)
		return 0;
	if (number >= SYSCALLS)
		number = SYSCALLS - 1;
	ADD(c->syscalls[number], 1);
	t = thread_of(me);
	if (!t)
		return 0;
	t->call = number;
	t->futex = FUTEX_NONE;
	t->private_futex = 0;
	switch (call_kind[number]) {
	case CALL_READS:
	case CALL_WRITES:
	case CALL_SPLICES:
		t->channel = channel_of(me, SYSCALL_ARGUMENT_1(regs));
		return 0;
	case CALL_FUTEX:
		t->futex = futex_operation(SYSCALL_ARGUMENT_2(regs));
		t->private_futex = !!(SYSCALL_ARGUMENT_2(regs) & FUTEX_PRIVATE_FLAG);
		break;
	case CALL_FUTEX_WAITV:
		t->futex = FUTEX_WAITS;
		break;
	case CALL_FUTEX_WAIT:
		t->futex = FUTEX_WAITS;
		t->private_futex = !!(SYSCALL_ARGUMENT_4(regs) & FUTEX2_PRIVATE);
		break;
	case CALL_FUTEX_WAKE:
		t->futex = FUTEX_WAKES;
		t->private_futex = !!(SYSCALL_ARGUMENT_4(regs) & FUTEX2_PRIVATE);
		break;
	case CALL_FUTEX_REQUEUE:
		t->futex = FUTEX_OTHER;
		break;
	default:
		return 0;
	}
	f = futexes(c, t);
	switch (t->futex) {
	case FUTEX_WAITS:
		ADD(f->waits, 1);
		t->waiting_at = bpf_ktime_get_ns();
		break;
	case FUTEX_WAKES:
		ADD(f->wakes, 1);
		break;
	default:
		ADD(f->others, 1);
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int syscall_left(__u64 *ctx)
{
	__s64 result = ctx[1], bytes = result > 0 ? result : 0;
	struct role_counters *c = my_counters();
	struct futex_calls *f;
	struct thread *t;
	__u32 number;

	if (!c)
		return 0;
	t = thread_of(bpf_get_current_task_btf());
	if (!t)
		return 0;
	/* Some kernels hide what certain threads do, and so a switch from one of them. */
	if (t->left_at) {
		count_stay(c, t, bpf_ktime_get_ns());
		t->woken_at = 0;
	}
	number = t->call;
	t->call = CALL_NONE;
	if (number >= SYSCALLS)
		return 0;
	f = futexes(c, t);
	switch (t->futex) {
	case FUTEX_WAITS:
		ADD(f->waited_ns, bpf_ktime_get_ns() - t->waiting_at);
		return 0;
	case FUTEX_WAKES:
		ADD(f->woken, bytes);
		return 0;
	}
	switch (call_kind[number]) {
	case CALL_READS:
		moved(c, t->channel, IN, bytes);
		/* fallthrough */
	case CALL_PEEKS:
		ADD(c->returned_read, bytes);
		break;
	case CALL_WRITES:
		moved(c, t->channel, OUT, bytes);
		/* fallthrough */
	case CALL_POKES:
		ADD(c->returned_written, bytes);
		break;
	case CALL_SPLICES:
		ADD(c->returned_spliced, bytes);
		break;
	}
	return 0;
}

#endif
