/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Bytes copied between the kernel and user memory.
 *
 * Each function here copies by itself: copy_page_to_iter and copy_page_from_iter
 * call _copy_to_iter and _copy_from_iter, so they are not in the list, and none of
 * the list calls another. The loader attaches a program to every function of its
 * kind that the kernel has.
 */
#ifndef SHUFFLED_COPIES_H
#define SHUFFLED_COPIES_H

/* Iterators over kernel memory and pages use the same functions. */
static __always_inline int over_user_memory(__u8 type)
{
	return type == bpf_core_enum_value(enum iter_type, ITER_UBUF) ||
	       type == bpf_core_enum_value(enum iter_type, ITER_IOVEC);
}

static __always_inline int copied(__u64 *ctx, struct iov_iter *iter, int direction)
{
	struct role_counters *c = my_counters();
	__u64 bytes;

	if (c && over_user_memory(iter->iter_type) && bpf_get_func_ret(ctx, &bytes) == 0)
		ADD(c->copied[direction], bytes);
	return 0;
}

/* size_t _copy_to_iter(const void *addr, size_t bytes, struct iov_iter *i), _copy_mc_to_iter */
SEC("fexit/_copy_to_iter")
int copied_to_user(__u64 *ctx)
{
	return copied(ctx, (struct iov_iter *)ctx[2], IN);
}

/* size_t csum_and_copy_to_iter(const void *addr, size_t bytes, void *csstate, struct iov_iter *i) */
SEC("fexit/csum_and_copy_to_iter")
int copied_to_user4(__u64 *ctx)
{
	return copied(ctx, (struct iov_iter *)ctx[3], IN);
}

/* size_t _copy_from_iter(void *addr, size_t bytes, struct iov_iter *i), and with _nocache and _flushcache */
SEC("fexit/_copy_from_iter")
int copied_from_user(__u64 *ctx)
{
	return copied(ctx, (struct iov_iter *)ctx[2], OUT);
}

/* size_t copy_folio_from_iter_atomic(struct folio *folio, size_t offset, size_t bytes, struct iov_iter *i) */
SEC("fexit/copy_folio_from_iter_atomic")
int copied_from_user4(__u64 *ctx)
{
	return copied(ctx, (struct iov_iter *)ctx[3], OUT);
}

/* bool csum_and_copy_from_iter_full(void *addr, size_t bytes, __wsum *csum, struct iov_iter *i) */
SEC("fexit/csum_and_copy_from_iter_full")
int copied_from_user_full(__u64 *ctx)
{
	struct iov_iter *iter = (struct iov_iter *)ctx[3];
	struct role_counters *c = my_counters();
	__u64 all;

	if (c && over_user_memory(iter->iter_type) && bpf_get_func_ret(ctx, &all) == 0 && (all & 1))
		ADD(c->copied[OUT], ctx[1]);
	return 0;
}

static __always_inline int requested(__u64 bytes, const struct iov_iter *iter, int direction)
{
	struct role_counters *c = my_counters();
	__u8 type;

	if (c && bpf_probe_read_kernel(&type, sizeof(type), &iter->iter_type) == 0 && over_user_memory(type))
		ADD(c->copied[direction], bytes);
	return 0;
}

/* The same with the sizes asked for, where functions cannot be traced but probed. */
SEC("kprobe/_copy_to_iter")
int requested_to_user(struct pt_regs *ctx)
{
	return requested(C_ARGUMENT_2(ctx), (struct iov_iter *)C_ARGUMENT_3(ctx), IN);
}

SEC("kprobe/csum_and_copy_to_iter")
int requested_to_user4(struct pt_regs *ctx)
{
	return requested(C_ARGUMENT_2(ctx), (struct iov_iter *)C_ARGUMENT_4(ctx), IN);
}

SEC("kprobe/_copy_from_iter")
int requested_from_user(struct pt_regs *ctx)
{
	return requested(C_ARGUMENT_2(ctx), (struct iov_iter *)C_ARGUMENT_3(ctx), OUT);
}

SEC("kprobe/csum_and_copy_from_iter_full")
int requested_from_user_full(struct pt_regs *ctx)
{
	return requested(C_ARGUMENT_2(ctx), (struct iov_iter *)C_ARGUMENT_4(ctx), OUT);
}

SEC("kprobe/copy_folio_from_iter_atomic")
int requested_from_user4(struct pt_regs *ctx)
{
	return requested(C_ARGUMENT_3(ctx), (struct iov_iter *)C_ARGUMENT_4(ctx), OUT);
}

#endif
