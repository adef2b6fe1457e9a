// Package results is what the workloads of package bench measure, as files that
// can be kept, compared and shown.
//
// A [File] has the machine, the workload and its measurements. A [Measurement]
// is what one transport did with one setting: its rounds, the medians of them,
// and ratios to other measurements of the same file. A [Round] holds figures by
// [Metric]; one that was not measured is absent, never zero.
//
// [File.WriteJSON] and [Read] keep files, [File.WriteTable] is for people,
// [File.WriteGoBenchmark] for benchstat. [Compare] says what got better or worse
// between two files, with the statistics of benchstat.
//
// Only ratios within one file say something about a transport: the rounds of its
// measurements took turns on one machine.
package results
