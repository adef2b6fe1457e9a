// Package pool divides a fixed number of memory segments between partitions.
//
// It works on numbers only, never on memory. The daemon's [NetworkBufferPool]
// holds the budget of the whole host: so many segments of one size. Each
// partition gets a [Grant] of it: Required segments that are there whenever it asks
// for them, and up to Max as long as others do not need them. A surplus is shared among
// users, each of whom gets as much as the others or as much as it can use, and then among
// the grants of each in proportion to what they could use. It is taken back when new grants
// come; these wait until it has come back ([NetworkBufferPool.QueueGrant]). Some can be
// kept for users that have little ([NetworkBufferPool.SetKept]).
//
// Which segments a grant stands for is the matter of the partition's region:
// segment numbers run from 0 in each of them, and a [SegmentSet] tells which are
// handed out. The producer of the partition keeps its free segments in a
// [LocalBufferPool] in its own heap. It draws them from a [Source], which is
// either a grant in the same process ([NetworkBufferPool.CreateLocalPool]) or a
// connection to the daemon.
//
//	 daemon                                        producer
//	┌───────────────────┐  Source.Request (n)     ┌────────────────────┐ TryRequest
//	│ NetworkBufferPool │◀────────────────────────│ LocalBufferPool    │───────────▶ writer
//	│   Grant  size 4   │  Granted (segments)     │   size 4           │
//	│   Grant  size 12  │────────────────────────▶│   free ring        │ Recycle
//	│                   │  SetNumBuffers (size)   │   channel quotas   │◀─────────── consumers'
//	│                   │────────────────────────▶│                    │             cursors
//	└───────────────────┘  Source.Recycle         └────────────────────┘
//
// Nothing in here waits: a caller that gets no segment waits for a channel that
// is closed when it is worth another try. Nothing calls out with a lock held.
//
// The behaviour is that of Flink's NetworkBufferPool and LocalBufferPool, with
// these differences. A grant is admitted when what it requires is free, not when it
// has not been promised, and no grant gets more than it requires of what another one
// may still require. There are users; with one of them, sizes are Flink's. Segments
// that come back are given to the waiting grants in the order in which they began to
// wait, those of the user who has least first. With more than a thousand grants, sizes are not
// all set with every one that comes or goes. A local pool fetches its first segments
// when one is wanted, and gives back those that it has not needed for a while. A
// channel over its quota makes a pool unavailable but does not keep a record that has
// been begun from a free segment. Broadcast segments are charged to no channel.
package pool
