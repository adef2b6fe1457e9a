package torture

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"shuffled/client"
	"shuffled/reader"
	"shuffled/shuffle"
)

// A consumerPlan is what a consumer process is to do.
type consumerPlan struct {
	Inputs  []shuffle.Input
	Streams []stream // by channel
	// LeaveAfter is after how many records the consumer closes its gate; 0 is
	// never.
	LeaveAfter uint64
	// PauseEvery is how many records go between short sleeps; 0 is none.
	PauseEvery uint64
	// ReadOn is whether the consumer reads on when nothing has come for a while
	// without the daemon.
	ReadOn bool
	// StartAfter delays the opening of the gate.
	StartAfter time.Duration
}

// endOfPartition is how a channel ends that was read to its end.
const endOfPartition = "end of partition"

// A consumerResult is what a consumer saw.
type consumerResult struct {
	Records []uint64 // by channel
	Bytes   uint64
	Ends    []string      // by channel: endOfPartition or the text of a sentinel
	Left    bool          // closed early
	Reading time.Duration // from the first record to the end
}

// channelErrors are the ways in which a channel may end early.
var channelErrors = []error{
	shuffle.ErrProducerLost, shuffle.ErrPartitionFailed, shuffle.ErrPartitionReleased, shuffle.ErrPartitionNotFound,
	shuffle.ErrAlreadyConsumed,
}

var channelOfError = regexp.MustCompile(`^channel (\d+): `)

// consume carries the plan out. A channel that ends in another way than those
// listed, and a record that is not what it must be, are errors.
func consume(ctx context.Context, plan consumerPlan) (result consumerResult, err error) {
	time.Sleep(plan.StartAfter)
	c, err := client.Dial(ctx)
	if err != nil {
		return result, err
	}
	defer c.Close()
	gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: plan.Inputs, Timeout: time.Hour})
	if err != nil {
		return result, err
	}
	result.Records, result.Ends = make([]uint64, len(plan.Streams)), make([]string, len(plan.Streams))
	for again := true; again && err == nil; {
		again, err = plan.read(ctx, gate, &result)
	}
	return result, errors.Join(err, gate.Close())
}

// read reads until something ends; again says that other channels go on.
func (plan *consumerPlan) read(ctx context.Context, gate shuffle.InputGate, result *consumerResult) (again bool,
	err error) {
	total := uint64(0)
	var first time.Time
	defer func() { result.Reading = time.Since(first) }()
	for rec, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
		if errors.Is(err, shuffle.ErrIncomplete) {
			break // all have ended, and what was lost was told before
		}
		if plan.ReadOn && errors.Is(err, shuffle.ErrDaemonLost) {
			return true, nil
		}
		if err != nil {
			return true, result.endChannel(err)
		}
		channel, err := producerOf(rec)
		if err == nil && channel >= len(plan.Streams) {
			err = fmt.Errorf("record of producer %d", channel)
		}
		if err == nil {
			err = plan.Streams[channel].check(rec, result.Records[channel])
		}
		if err != nil {
			return false, fmt.Errorf("wrong content: %w", err)
		}
		result.Records[channel]++
		result.Bytes += uint64(len(rec))
		if total++; total == 1 {
			first = time.Now()
		}
		if plan.PauseEvery > 0 && total%plan.PauseEvery == 0 {
			time.Sleep(time.Millisecond)
		}
		if plan.LeaveAfter > 0 && total == plan.LeaveAfter {
			result.Left = true
			return false, nil
		}
	}
	for channel, end := range result.Ends {
		if end == "" {
			result.Ends[channel] = endOfPartition
		}
	}
	return false, nil
}

// endChannel notes how a channel has ended.
func (r *consumerResult) endChannel(err error) error {
	match := channelOfError.FindStringSubmatch(err.Error())
	if match == nil {
		return fmt.Errorf("not the error of a channel: %w", err)
	}
	channel, _ := strconv.Atoi(match[1]) // digits
	if r.Ends[channel] != "" {
		return fmt.Errorf("channel %d had ended with %q: %w", channel, r.Ends[channel], err)
	}
	for _, known := range channelErrors {
		if errors.Is(err, known) {
			r.Ends[channel] = known.Error()
			return nil
		}
	}
	return fmt.Errorf("unexpected end: %w", err)
}
