package torture

import (
	"fmt"

	"shuffled/shuffle"
)

// Figures are what all rounds together have seen.
type figures struct {
	rounds, killedProducers, killedConsumers, stopped, held, left int
	records, bytes                                                uint64
	consumersLost                                                 int // producers that got ErrConsumerLost
	ends                                                          map[string]int
}

// judge checks what the workers of a round saw.
func (r *round) judge(f *figures) {
	f.rounds++
	consumerGone := false
	for i, w := range r.workers {
		switch {
		case !w.wasKilled():
			consumerGone = consumerGone || w.result().Left
			if w.result().Left {
				f.left++
			}
		case i < len(r.producers):
			f.killedProducers++
			if w.has(holding) {
				f.held++
			}
		default:
			f.killedConsumers++
			consumerGone = true
		}
	}
	for _, v := range r.victims {
		if v.stopFor > 0 && r.workers[v.worker].wasKilled() {
			f.stopped++
		}
	}
	for _, w := range r.workers {
		if w.wasKilled() {
			continue
		}
		if problem := r.judgeSurvivor(w, consumerGone, f); problem != "" {
			r.t.Fatalf("%s: %s\n%s", w.name, problem, r.report())
		}
	}
}

// judgeSurvivor returns what is wrong with the end of a worker that was not
// killed.
func (r *round) judgeSurvivor(w *worker, consumerGone bool, f *figures) string {
	if w.last == nil {
		return "it ended without a report"
	}
	outcome := w.last.Outcome
	if outcome.Mappings != 0 {
		return fmt.Sprintf("it has left %d mappings", outcome.Mappings)
	}
	if plan := w.plan.Producer; plan != nil {
		switch {
		case outcome.Error == "":
			return ""
		case outcome.ConsumerLost && consumerGone && !plan.Discard:
			f.consumersLost++
			return ""
		}
		return "unexpected error: " + outcome.Error
	}
	if outcome.Error != "" {
		return "unexpected error: " + outcome.Error
	}
	result := w.result()
	f.bytes += result.Bytes
	for channel := range r.producers {
		f.records += result.Records[channel]
		if problem := r.judgeChannel(r.workers[channel], result.Records[channel], result.Ends[channel], result.Left,
			consumerGone); problem != "" {
			return fmt.Sprintf("channel %d ended with %q after %d records: %s", channel, result.Ends[channel],
				result.Records[channel], problem)
		}
		if !result.Left {
			f.ends[result.Ends[channel]]++
		}
	}
	return ""
}

// judgeChannel returns what is wrong with what a consumer got of a producer. That
// the records are the first ones, whole and in order, the consumer has checked.
func (r *round) judgeChannel(producer *worker, got uint64, end string, left, consumerGone bool) string {
	plan, killed := producer.plan.Producer, producer.wasKilled()
	failed := !killed && producer.last.Outcome.ConsumerLost
	switch {
	case got > plan.Records:
		return fmt.Sprintf("more than the %d there are", plan.Records)
	case left:
		return ""
	case end == endOfPartition:
		if got != plan.Records {
			return fmt.Sprintf("end of partition before the %d there are", plan.Records)
		}
		return ""
	// A consumer that came after the end of the partition gets nothing; one that
	// was attached gets all that was committed.
	case got > 0 && got < producer.committedRecords():
		return fmt.Sprintf("less than the %d that were committed", producer.committedRecords())
	case killed && end == shuffle.ErrProducerLost.Error():
		return ""
	case killed && end == shuffle.ErrPartitionFailed.Error() && (consumerGone || !producer.has(created)):
		return ""
	case failed && (end == shuffle.ErrPartitionFailed.Error() || end == shuffle.ErrProducerLost.Error()):
		return ""
	}
	return fmt.Sprintf("its producer was killed: %v, has failed: %v", killed, failed)
}
