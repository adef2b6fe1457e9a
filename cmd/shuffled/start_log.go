package main

import (
	"fmt"
	"os"
	"strings"

	"shuffled/internal/units"
)

// logStart says what the daemon is, whom it serves and what it can take: what one
// wants to know when something is not as expected.
func (d *service) logStart(descriptors uint64, degradations []degradation) {
	o := d.options
	limits := o.config().Limits
	attrs := []any{
		"version", programVersion(), "pid", os.Getpid(), "socket", o.socket,
		"memory", units.FormatSize(o.memory), "segment_size", units.FormatSize(o.segmentSize), "segments",
		o.memory / o.segmentSize,
		"max_control_memory", units.ShortSize(limits.ControlMemory), "max_heap_memory",
		units.ShortSize(limits.HeapMemory),
		"isolation", o.isolation, "huge_pages", o.hugePages, "descriptors", descriptors,
		"most_partitions", min(limits.Partitions, clientDescriptors(descriptors)/2),
		"charged_cgroup", o.budget.cgroup, "cgroup_limit", d.limitText(), "machine_memory",
		units.ShortSize(o.budget.ram),
		"may_connect", o.mayConnect(), "retention", shortDuration(o.retention), "drain_timeout",
		shortDuration(o.drainTimeout),
		"restart", "keeps nothing: unread partitions end with the daemon, attached pairs go on",
	}
	if d.admin != nil {
		attrs = append(attrs, "metrics_address", d.admin.address().String(), "pprof", o.pprof)
	}
	d.log.Info("shuffled starts", attrs...)
	for _, g := range degradations {
		if g.active {
			d.log.Warn("degraded", "reason", g.reason, "detail", g.detail)
		}
	}
	if whole, left, little := o.budget.leavesLittle(o.memory); little {
		d.log.Warn("--memory leaves little for workers and everything else: lower it, unless they have memory of their own",
			"memory", units.FormatSize(o.memory), "of", units.ShortSize(whole), "left", units.ShortSize(left))
	}
	if most := clientDescriptors(descriptors) / 2; most < limits.Partitions && o.maxPartitionsGiven() {
		d.log.Warn("--max-partitions is out of reach: a partition takes two descriptors, raise RLIMIT_NOFILE (systemd: LimitNOFILE=)",
			"max_partitions", limits.Partitions, "most_partitions", most)
	}
	if d.admin != nil && !isLoopback(d.admin.address()) {
		d.log.Warn("metrics can be read from other hosts", "metrics_address", d.admin.address().String(), "pprof",
			o.pprof)
	}
}

// mayConnect says who may use the daemon.
func (o *serveOptions) mayConnect() string {
	who := []string{"root"}
	if uid := os.Geteuid(); uid != 0 {
		who = append(who, fmt.Sprintf("uid %d", uid))
	}
	for _, uid := range o.allowedUIDs {
		who = append(who, fmt.Sprintf("uid %d", uid))
	}
	for _, gid := range o.allowedGIDs {
		who = append(who, fmt.Sprintf("gid %d", gid))
	}
	return strings.Join(who, ", ")
}

// maxPartitionsGiven reports whether somebody has chosen --max-partitions.
func (o *serveOptions) maxPartitionsGiven() bool {
	return o.limits.maxPartitions != newServeOptions().limits.maxPartitions
}

func (d *service) limitText() string {
	if d.options.budget.limit == 0 {
		return "none"
	}
	return units.ShortSize(d.options.budget.limit)
}
