// Package partition is the data path between a producer and its consumers. No
// socket is in here.
//
// The producer's end is a [ResultPartition]: it writes records into segments of a
// shared region and queues them, with an event between them now and then, in a
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
// Whoever hosts a partition, which is package client, makes both ends, brings and
// takes consumers and segments, and says how the partition ended. Users have
// shuffle.ResultPartition.
package partition
