// Package shuffle is the words of a shuffle that all its processes share.
//
// A result partition ([PartitionSpec], [PartitionID]) is produced by one process
// and has subpartitions, each read by one consumer. Its producer's end is a
// [ResultPartition], which package client creates and a RecordWriter of package writer
// writes; [ResultPartition.Reserve] is the way to write a record without copying it at
// all. The consumer's end is an [InputGate], which package client opens ([GateSpec]):
// it reads the subpartitions of many partitions, its channels, as one stream of buffers
// and events ([BufferOrEvent]), and package reader reads records in it. A
// [ChannelError] says why a channel has no more.
//
//	 producer's process                            consumer's process
//	┌───────────────────────────────┐             ┌──────────────────┐
//	│ ResultPartition               │  segments   │ InputGate        │
//	│   subpartition 0 ─────────────┼────────────▶│   channel 0      │
//	│   subpartition 1 ──▶          │◀────────────┼─ released, want  │
//	└───────────────────────────────┘  doorbells  └──────────────────┘
//
// An [Event] travels between records, and a [Codec] turns records into bytes, as does an
// [AppendCodec] that may fail or cannot tell their size before, such as [JSON].
// Sentinels of all errors are here, see [ErrPartitionNotFound] and those beside
// it.
//
// The model, its words and its rules are those of Apache Flink's pipelined result
// partitions; docs/flink-differences.md says where they differ.
package shuffle
