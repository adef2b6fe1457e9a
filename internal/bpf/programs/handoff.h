/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The way of a buffer from probe.Publish to probe.Consume of a Go program: probes
 * at the entries of these functions, which never see the stack. Their arguments
 * (region, ordinal, bytes) are in registers.
 */
#ifndef SHUFFLED_HANDOFF_H
#define SHUFFLED_HANDOFF_H

/* The latency of buffers whose ordinal is a multiple of it is taken. Set when loaded. */
const volatile __u64 sample_every = 1;

struct buffer {
	__u64 region, ordinal;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct buffer);
	__type(value, __u64);
} published SEC(".maps");

SEC("uprobe/publish")
int buffer_published(struct pt_regs *ctx)
{
	struct buffer b = { GO_ARGUMENT_1(ctx), GO_ARGUMENT_2(ctx) };
	struct role_counters *c = my_counters();
	__u64 now;

	if (!c)
		return 0;
	ADD(c->published, 1);
	ADD(c->published_bytes, GO_ARGUMENT_3(ctx));
	if (b.ordinal % sample_every)
		return 0;
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&published, &b, &now, BPF_ANY);
	return 0;
}

SEC("uprobe/consume")
int buffer_consumed(struct pt_regs *ctx)
{
	struct buffer b = { GO_ARGUMENT_1(ctx), GO_ARGUMENT_2(ctx) };
	__u64 *at, latency, now = bpf_ktime_get_ns();
	struct role_counters *c = my_counters();

	if (!c)
		return 0;
	ADD(c->consumed, 1);
	ADD(c->consumed_bytes, GO_ARGUMENT_3(ctx));
	if (b.ordinal % sample_every)
		return 0;
	at = bpf_map_lookup_elem(&published, &b);
	if (!at) {
		ADD(c->missed, 1);
		return 0;
	}
	latency = now > *at ? now - *at : 0;
	bpf_map_delete_elem(&published, &b);
	ADD(c->handoff[bucket(latency) & (BUCKETS - 1)], 1);
	return 0;
}

#endif
