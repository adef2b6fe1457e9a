package results_test

import (
	"fmt"

	"shuffled/bench/results"
)

func ExampleFile_Summarise() {
	f := results.New("throughput")
	for _, rate := range []float64{60e6, 20e6, 80e6} {
		f.Add(results.Settings{Transport: "shm", RecordSize: 100}, results.Round{results.RecordsPerS: rate})
		f.Add(results.Settings{Transport: "unix", RecordSize: 100}, results.Round{results.RecordsPerS: rate / 2})
	}
	f.Summarise()
	for _, m := range f.Results {
		fmt.Printf("%v: median %s records/s, %.1f times unix\n", m.Settings,
			results.RecordsPerS.Format(m.Medians[results.RecordsPerS]), m.RatioToUnix)
	}
	// Output:
	// transport=shm,record_size=100: median 60.00M records/s, 2.0 times unix
	// transport=unix,record_size=100: median 30.00M records/s, 1.0 times unix
}
