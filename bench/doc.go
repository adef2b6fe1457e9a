// Package bench measures the shuffle beside what else moves records between two
// processes, and runs a word count on it that is checked against the same count
// without any shuffle.
//
// [WordCount] is the workload: producers read text files and emit words, keyed
// by the word, and consumers count what they get. [Throughput] is the
// measurement: a producer and a consumer process for each [Transport], in
// rounds that take turns, so that a machine that gets slower does so for all.
// Content is always checked: every record carries its sequence number and a
// pattern, and the consumer compares both in full.
//
// The transports differ in how a record travels and in nothing else: producers
// of all of them take records from one kind of source, and consumers hand them
// to one kind of checker.
//
//	shm      the public API: RecordWriter.Emit to reader.Records, through a daemon
//	ceiling  a plain ring in shared memory, no API, no types, both sides spinning
//	unix     length-prefixed records over a Unix stream socket, buffered
//	tcp      the same over TCP on the loopback interface
//	pipe     the same over a pipe
//	grpc     a message for each record in a client-streaming gRPC call, over a Unix
//	         stream socket
//
// [Latency] measures how long records are under way, one way from the planned time
// of their sending, or there and back one at a time. Its round trips compare with
// two bare ones, in which two processes count in words of one shared page:
//
//	futex       both sides park, with a system call to wake and one to sleep
//	cache-line  both sides spin
//
// [Fanout] measures what a record costs when producers have one to thousands of
// subpartitions, each with a consumer of its own, and the memory of each. [Scale]
// measures what many partitions and gates take of one daemon, and of the workers
// that have them, while nothing flows.
//
// Workers are processes: the program starts itself again, see [RunWorker] and
// [Launcher]. The command line is cmd/bench.
package bench
