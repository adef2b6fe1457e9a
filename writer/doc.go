// Package writer is the producer's side of a shuffle.
//
// A [RecordWriter] serialises records, with a shuffle.Codec, straight into the
// shared memory of a result partition. With a shuffle.AppendCodec, which may fail or
// cannot tell the size of a record before ([NewAppending]), it serialises into memory of
// its own first. Its [ChannelSelector] says which
// subpartition a record goes to: always the first ([Forward]), each in turn
// ([Rebalance]), all of them ([Broadcast]), the one of its key ([KeyGroups]) or
// whichever a function says ([Custom]).
//
// Consumers are woken when buffers fill. [WithBufferTimeout] says how long a
// record may wait for that; an output flusher of the writer sees to it. When no
// segment is free the writer waits for its consumers, for as long as the context
// of the call lasts; [Counters] tells for how long it did.
//
// Keys are hashed ([HashString] and its like) and assigned to subpartitions
// ([KeyGroup], [KeyGroupRange]) exactly as in Apache Flink, so that jobs of both
// agree on where a key belongs.
package writer
