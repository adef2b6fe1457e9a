// Package registry knows who produces and consumes which partition. It is the daemon's,
// and knows neither memory nor sockets.
//
// A [ResultPartitionManager] knows partitions by their keys ([HostedPartition]), brings
// consumers to partitions that do not exist yet ([SubpartitionRequest]), and remembers
// what became of those that ended. What a partition is made of is the business of its
// [PartitionHost].
package registry
