/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Page faults, and those of shuffled's own shared objects: programs on the events
 * by which the kernel counts the faults that it has resolved, one by one, in the
 * context of the thread.
 */
#ifndef SHUFFLED_FAULTS_H
#define SHUFFLED_FAULTS_H

/* How the names of shared objects begin: see memseg.CreateMemfd. */
#define OUR_NAMES "memfd:shuffled-"

static __always_inline int is_ours(struct file *file)
{
	const char ours[16] = OUR_NAMES;
	char name[16] = {};

	if (!file)
		return 0;
	bpf_probe_read_kernel(name, sizeof(ours) - 1, file->f_path.dentry->d_name.name);
	return *(__u64 *)name == *(__u64 *)ours && *(__u64 *)(name + 8) == *(__u64 *)(ours + 8);
}

static long look_at_mapping(struct task_struct *task, struct vm_area_struct *vma, void *ours)
{
	*(int *)ours = is_ours(vma->vm_file);
	return 0;
}

static __always_inline int faulted(struct bpf_perf_event_data *ctx, int major)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct role_counters *c = my_counters();
	struct thread *t;
	int ours = 0;

	if (!c)
		return 0;
	if (IN_USER_MODE(ctx)) {
		ADD(c->faults_user, 1);
		t = thread_of(me);
		if (t)
			t->call = CALL_NONE;
	} else {
		ADD(c->faults_kernel, 1);
	}
	if (major)
		ADD(c->faults_major, 1);
	/* Another thread may be changing the mappings: then the kernel does not wait. */
	if (bpf_find_vma(me, ctx->addr, look_at_mapping, &ours, 0) == -EBUSY)
		ADD(c->faults_unplaced, 1);
	if (ours)
		ADD(c->first_touches, 1);
	return 0;
}

SEC("perf_event")
int faulted_minor(struct bpf_perf_event_data *ctx)
{
	return faulted(ctx, 0);
}

SEC("perf_event")
int faulted_major(struct bpf_perf_event_data *ctx)
{
	return faulted(ctx, 1);
}

#endif
