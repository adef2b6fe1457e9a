// Package shuffle is the data path between a producer and its consumers, and the words
// that all processes share. No socket is in here.
//
// A result partition ([PartitionSpec], [PartitionID]) is produced by one process
// and has subpartitions, each read by one consumer. The producer's end is a
// [ResultPartition]: it writes records into segments of a shared region and
// queues them, with an [Event] between them now and then, in a
// [ResultSubpartition] for each consumer. The consumer's end is a
// [SubpartitionView], which reads the same memory in place and tells the producer
// how far it may be used again; a [ConsumerLink] is what the producer knows of it.
//
//	 producer's process                            consumer's process
//	┌───────────────────────────────┐             ┌──────────────────┐
//	│ ResultPartition               │  segments   │ SubpartitionView │
//	│   ResultSubpartition 0 ───────┼────────────▶│                  │
//	│   ResultSubpartition 1 ──▶    │◀────────────┼─ released, want  │
//	└───────────────────────────────┘  doorbells  └──────────────────┘
//
// Applications use packages writer and reader, which add records and gates, and
// get both ends from package client. [ResultPartition.Reserve] is the way to
// write a record without copying it at all.
//
// Sentinels of all errors are here, see [ErrPartitionNotFound] and those beside
// it. A [Codec] turns records into bytes.
//
// The model, its words and its rules are those of Apache Flink's pipelined result
// partitions; docs/flink-differences.md says where they differ.
package shuffle
