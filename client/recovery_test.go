package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/reader"
	"shuffled/shuffle"
)

// produceStage runs the producer of a stage once.
func produceStage(ctx context.Context, c *Client, id shuffle.PartitionID,
	emit func(shuffle.ResultPartition) error) error {
	attempt, err := c.NextAttempt(ctx, id)
	if err != nil {
		return err // no attempt is left: the stage needs another id
	}
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Attempt: attempt, Subpartitions: 1})
	if errors.Is(err, shuffle.ErrAlreadyExists) {
		return nil // an older attempt is whole and waits for its consumers
	}
	if err != nil {
		return err
	}
	defer p.Close()
	if err := emit(p); err != nil {
		return errors.Join(err, p.Fail(ctx, err)) // the consumers are told why
	}
	return p.Finish(ctx)
}

// consumeStage reads one subpartition of a stage, whole, from whichever attempt is
// the first to be whole.
func consumeStage(ctx context.Context, c *Client, id shuffle.PartitionID,
	subpartition int) (records []string, err error) {
	input := shuffle.Input{Partition: id, Subpartition: subpartition}
	for {
		records, err = readAttempt(ctx, c, input)
		var ended *shuffle.AttemptError
		if !errors.As(err, &ended) || ended.Attempt == shuffle.MaxAttempt {
			return records, err // all of it, or an error that no newer attempt mends
		}
		input.MinAttempt = ended.Attempt + 1 // what was read is thrown away
	}
}

func readAttempt(ctx context.Context, c *Client, input shuffle.Input) (records []string, err error) {
	gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{input}, Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	defer gate.Close()
	for record, err := range reader.Records(ctx, gate, shuffle.Strings{}) {
		if err != nil {
			return nil, err
		}
		records = append(records, strings.Clone(record))
	}
	return records, nil
}

// stageRecords is how many records the stage of this test has.
const stageRecords = 1000

// runStageProducer is the stage's producer in a process of its own. The first
// attempt stops in the middle, to be killed.
func runStageProducer(ctx context.Context, c *Client, id shuffle.PartitionID) error {
	err := produceStage(ctx, c, id, func(p shuffle.ResultPartition) error {
		for i := range stageRecords {
			if err := p.EmitRecord(ctx, framed(fmt.Sprintf("%d of attempt %d", i, p.Spec().Attempt)), 0); err != nil {
				return err
			}
			if i == stageRecords/2 && p.Spec().Attempt == 0 {
				if err := p.FlushAll(); err != nil {
					return err
				}
				fmt.Println("begun")
				select {}
			}
		}
		return nil
	})
	fmt.Println("begun")
	return err
}

func TestAStageIsRestartedAfterItsProducerWasKilled(t *testing.T) {
	d := startDaemon(t, testConfig())
	consumer := d.dial(t)
	id := shuffle.NewPartitionID()
	type result struct {
		records []string
		err     error
	}
	done := make(chan result, 1)
	go func() {
		records, err := consumeStage(testContext(t), consumer, id, 0)
		done <- result{records, err}
	}()
	kill := startChild(t, "stage producer", d.path, id)
	kill()
	// A consumer that comes before the restarted producer finds what became of the
	// first attempt, and waits for the next.
	require.Eventually(t, func() bool {
		next, err := consumer.NextAttempt(testContext(t), id)
		return err == nil && next == 1 && len(d.Snapshot().Partitions) == 0
	}, patience, time.Millisecond)
	startChild(t, "stage producer", d.path, id)()
	r := <-done
	require.NoError(t, r.err)
	require.Len(t, r.records, stageRecords)
	for i, record := range r.records {
		require.Equal(t, fmt.Sprintf("%d of attempt 1", i), record, "nothing of the attempt that was lost")
	}
	d.requireIdle(t)
}

// A consumer that was killed restarts while the attempt that it had read is still
// there, and its producer does not know of it yet.
func TestAStageIsRestartedAfterItsConsumerWasKilled(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	id := shuffle.NewPartitionID()
	emit := func(n int) func(p shuffle.ResultPartition) error {
		return func(p shuffle.ResultPartition) error {
			for i := range n {
				if err := p.EmitRecord(testContext(t), framed(fmt.Sprint(i)), 0); err != nil {
					return err
				}
			}
			return nil
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- produceStage(testContext(t), producer, id, emit(1<<30)) }()
	startChild(t, "consumer", d.path, id)()
	require.Eventually(t, func() bool {
		rows, err := consumer.List(testContext(t))
		return err == nil && (len(rows) == 0 || rows[0].State != "running" || rows[0].SegmentsHeld > 0)
	}, patience, time.Millisecond)
	done := make(chan []string, 1)
	go func() {
		records, err := consumeStage(testContext(t), consumer, id, 0)
		require.NoError(t, err)
		done <- records
	}()
	require.ErrorIs(t, <-failed, shuffle.ErrConsumerLost)
	require.NoError(t, produceStage(testContext(t), producer, id, emit(3)))
	require.Equal(t, []string{"0", "1", "2"}, <-done)
	d.requireIdle(t)
}

func TestAProducerLeavesAnAttemptThatIsWholeToItsConsumers(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	s := spec(1)
	p := create(t, c, s)
	require.NoError(t, p.EmitRecord(testContext(t), framed("whole"), 0))
	require.NoError(t, p.Finish(testContext(t)))
	require.NoError(t, produceStage(testContext(t), c, s.ID, func(shuffle.ResultPartition) error {
		return errors.New("not called")
	}))
	records, err := consumeStage(testContext(t), c, s.ID, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"whole"}, records)
}

// The page shows the functions above as they stand.
func TestTheRecoveryPageShowsTheCodeThatIsTested(t *testing.T) {
	page, err := os.ReadFile("../docs/recovery.md")
	require.NoError(t, err)
	source, err := os.ReadFile("recovery_test.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		code := strings.ReplaceAll(block[1], "client.Client", "Client")
		require.Contains(t, string(source), code)
	}
}
