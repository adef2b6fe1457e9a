// Package client is what a worker links to exchange records over shared memory.
//
// [Dial] connects to the daemon of this host; [Embedded] runs one inside this
// process, on the same code path. A [Client] creates result partitions
// ([Client.CreatePartition]), which a writer.RecordWriter writes, and opens input
// gates ([Client.OpenGate]), which reader.Records reads. The connection carries
// control messages and file descriptors only; records go from process to process
// in memory that both have mapped, and attached producers and consumers go on
// when the daemon is gone.
package client
