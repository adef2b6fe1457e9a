/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Who leaves its core and why, who wakes whom, and how long that takes. */
#ifndef SHUFFLED_SCHEDULING_H
#define SHUFFLED_SCHEDULING_H

/* By core: timers that are expiring on it now. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} expiring SEC(".maps");

static __always_inline __u8 reason_of_leaving(struct thread *t, __u32 state)
{
	__u32 call = t->call;
	__u8 reason;

	if (t->call == CALL_NONE) /* user code sleeps for a page, or is made to */
		return state & (TASK_STOPPED | TASK_TRACED) ? OFF_OTHER : OFF_PAGE_FAULT;
	if (call >= SYSCALLS)
		return OFF_OTHER;
	reason = call_reason[call];
	switch (reason) {
	case OFF_BY_FUTEX:
		return t->private_futex ? OFF_FUTEX_PRIVATE : OFF_FUTEX_SHARED;
	case OFF_BY_CHANNEL:
		switch (t->channel) {
		case UNIX_STREAM:
		case UNIX_PACKET:
		case TCP:
			return OFF_SOCKET;
		case PIPE:
			return OFF_PIPE;
		}
		return OFF_OTHER;
	}
	return reason;
}

static __always_inline void leave(struct task_struct *task, int preempted, __u32 state, __u64 now)
{
	__u32 role, id = task->pid;
	struct role_counters *c;
	struct thread *t;

	if (!watched(task->tgid, &role))
		return;
	c = counters_of(role);
	if (!c)
		return;
	if (!preempted && (state & TASK_DEAD)) {
		ADD(c->voluntary, 1);
		bpf_map_delete_elem(&threads, &id);
		return;
	}
	t = thread_of(task);
	if (preempted || state == 0) {
		ADD(c->involuntary, 1);
		if (!t)
			return;
		t->left_for = OFF_PREEMPTED;
		if (!preempted && (__u32)t->call < SYSCALLS && call_reason[t->call] == OFF_YIELD)
			t->left_for = OFF_YIELD;
		/* A wake-up before it slept has had its effect. */
		t->woken_at = 0;
	} else {
		ADD(c->voluntary, 1);
		if (!t)
			return;
		t->left_for = reason_of_leaving(t, state);
	}
	t->left_at = now;
}

static __always_inline void arrive(struct task_struct *task, __u64 now)
{
	__u32 role, id = task->pid;
	struct role_counters *c;
	struct thread *t;

	if (!watched(task->tgid, &role))
		return;
	c = counters_of(role);
	t = bpf_map_lookup_elem(&threads, &id);
	if (!c || !t)
		return;
	if (t->left_at)
		count_stay(c, t, now);
	if (t->woken_at) {
		ADD(c->wake_latency[bucket(now - t->woken_at) & (BUCKETS - 1)], 1);
		t->woken_at = 0;
	}
}

/* sched_switch(bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state) */
SEC("tp_btf/sched_switch")
int switched(__u64 *ctx)
{
	__u64 now = bpf_ktime_get_ns();

	leave((struct task_struct *)ctx[1], (__u8)ctx[0], ctx[3], now);
	arrive((struct task_struct *)ctx[2], now);
	return 0;
}

/* sched_waking(struct task_struct *p), in the context of who wakes. */
SEC("tp_btf/sched_waking")
int waking(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	__u32 waker = ROLE_OTHER, woken = ROLE_OTHER, zero = 0;
	int watches_waker, watches_woken;
	struct role_counters *c;
	struct thread *t;
	__u32 *timers;

	watches_waker = watched(bpf_get_current_pid_tgid() >> 32, &waker);
	watches_woken = watched(task->tgid, &woken);
	if (!watches_waker && !watches_woken)
		return 0;
	if (watches_woken) {
		t = thread_of(task);
		if (t)
			t->woken_at = bpf_ktime_get_ns();
	}
	/* A timer interrupts whoever runs, who has nothing to do with it. */
	timers = bpf_map_lookup_elem(&expiring, &zero);
	if (timers && *timers) {
		if (!watches_woken)
			return 0;
		waker = ROLE_OTHER;
	}
	c = counters_of(waker);
	if (c && woken < ROLES)
		ADD(c->wakes[woken], 1);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int timer_begins(__u64 *ctx)
{
	__u32 zero = 0, *timers = bpf_map_lookup_elem(&expiring, &zero);

	if (timers)
		*timers += 1;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int timer_ends(__u64 *ctx)
{
	__u32 zero = 0, *timers = bpf_map_lookup_elem(&expiring, &zero);

	if (timers && *timers)
		*timers -= 1;
	return 0;
}

#endif
