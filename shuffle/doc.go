// Package shuffle is the words of a shuffle that all its processes share.
//
// A result partition ([PartitionSpec], [PartitionID]) is produced by one process
// and has subpartitions, each read by one consumer. A gate ([GateSpec]) reads the
// subpartitions of many partitions, its channels, as one stream of buffers and
// events ([BufferOrEvent]); a [ChannelError] says why a channel has no more. An
// [Event] travels between records, and a [Codec] turns records into bytes.
//
// Sentinels of all errors are here, see [ErrPartitionNotFound] and those beside
// it.
//
// The model, its words and its rules are those of Apache Flink's pipelined result
// partitions; docs/flink-differences.md says where they differ.
package shuffle
