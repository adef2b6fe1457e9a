/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the programs keep.
 *
 *   roles     by process: which are watched, and as what. Written by user space.
 *   counters  by role, a copy per core: what was counted. Read by user space.
 *   threads   by thread of a watched process: what it is doing now.
 *   published by buffer: when it was published.
 *
 * A program is preempted like the task that it runs for, and another task of the
 * same role may go on with the same counter on the same core: hence the atomic
 * additions. The kernel skips a tracing program whose run on this core was
 * preempted, and counts that.
 */
#ifndef SHUFFLED_STATE_H
#define SHUFFLED_STATE_H

enum {
	ROLE_OTHER,
	ROLE_PRODUCER,
	ROLE_CONSUMER,
	ROLE_DAEMON,
	ROLES,
};

#define SYSCALLS 512
#define BUCKETS 64

enum {
	IN, /* to the user */
	OUT,
	DIRECTIONS,
};

enum {
	UNIX_STREAM,
	UNIX_PACKET,
	TCP,
	PIPE,
	SHMEM,
	FILE,
	OTHER_CHANNEL,
	CHANNELS,
};

enum {
	OFF_FUTEX_SHARED,
	OFF_FUTEX_PRIVATE,
	OFF_EPOLL,
	OFF_SOCKET,
	OFF_PIPE,
	OFF_NANOSLEEP,
	OFF_PAGE_FAULT,
	OFF_YIELD,
	OFF_PREEMPTED,
	OFF_OTHER,
	OFF_REASONS,

	/* In call_reason only: told from the arguments. */
	OFF_BY_FUTEX = 64,
	OFF_BY_CHANNEL,
};

struct futex_calls {
	__u64 waits, waited_ns, wakes, woken, others;
};

struct traffic {
	__u64 calls, empty, bytes;
};

struct off_cpu {
	__u64 stays, ns;
};

struct role_counters {
	__u64 syscalls[SYSCALLS];
	__u64 returned_read, returned_written, returned_spliced;
	struct futex_calls futex_shared, futex_private;
	__u64 copied[DIRECTIONS];
	struct traffic channels[CHANNELS * DIRECTIONS];
	__u64 voluntary, involuntary;
	struct off_cpu off_cpu[OFF_REASONS];
	__u64 wake_latency[BUCKETS];
	__u64 wakes[ROLES]; /* of that role, by this one */
	__u64 faults_user, faults_kernel, faults_major, first_touches, faults_unplaced;
	__u64 published, published_bytes, consumed, consumed_bytes, missed;
	__u64 handoff[BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} roles SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROLES);
	__type(key, __u32);
	__type(value, struct role_counters);
} counters SEC(".maps");

/* Values of thread.call beside the numbers of system calls. */
#define CALL_NONE (-1)
#define CALL_UNKNOWN (-2) /* was in it before it was watched, or in none */

/* writer: the thread itself, woken_at: who wakes it. */
struct thread {
	__u64 left_at;	  /* its core, 0 while it runs */
	__u64 woken_at;	  /* 0 once it runs */
	__u64 waiting_at; /* entered a futex call that waits, or 0 */
	__s32 call;
	__u8 channel; /* of the first argument of the call */
	__u8 futex;   /* FUTEX_ of syscalls.h */
	__u8 private_futex;
	__u8 left_for;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

#define ADD(counter, n) __sync_fetch_and_add(&(counter), (n))

/* Returns whether a process is watched. */
static __always_inline int watched(__u32 process, __u32 *role)
{
	__u32 *found = bpf_map_lookup_elem(&roles, &process);

	if (!found)
		return 0;
	*role = *found;
	return 1;
}

static __always_inline struct role_counters *counters_of(__u32 role)
{
	return bpf_map_lookup_elem(&counters, &role);
}

/* Returns the counters of the current process, NULL unless it is watched. */
static __always_inline struct role_counters *my_counters(void)
{
	__u32 role;

	if (!watched(bpf_get_current_pid_tgid() >> 32, &role))
		return NULL;
	return counters_of(role);
}

/* Returns what is known of a thread of a watched process, NULL if its entry cannot be made. */
static __always_inline struct thread *thread_of(struct task_struct *task)
{
	__u32 id = task->pid;
	struct thread *t = bpf_map_lookup_elem(&threads, &id);
	struct thread fresh = { .call = CALL_UNKNOWN };

	if (t)
		return t;
	bpf_map_update_elem(&threads, &id, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&threads, &id);
}

/* Counts the stay off its core that a thread is back from. */
static __always_inline void count_stay(struct role_counters *c, struct thread *t, __u64 now)
{
	__u32 reason = t->left_for;

	if (reason < OFF_REASONS) {
		ADD(c->off_cpu[reason].stays, 1);
		ADD(c->off_cpu[reason].ns, now - t->left_at);
	}
	t->left_at = 0;
}

/* Returns the place of the highest bit of a duration, 0 for none. */
static __always_inline __u32 bucket(__u64 ns)
{
	__u32 i = 0;

	if (ns >> 32) {
		ns >>= 32;
		i += 32;
	}
	if (ns >> 16) {
		ns >>= 16;
		i += 16;
	}
	if (ns >> 8) {
		ns >>= 8;
		i += 8;
	}
	if (ns >> 4) {
		ns >>= 4;
		i += 4;
	}
	if (ns >> 2) {
		ns >>= 2;
		i += 2;
	}
	return i + (ns >> 1 & 1);
}

#endif
