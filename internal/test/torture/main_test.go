package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/daemontest"
	"shuffled/internal/test/leaktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// workerVariable holds the plan of a worker process. Without it, this binary
// runs tests.
const workerVariable = "TORTURE_WORKER"

func TestMain(m *testing.M) {
	if plan := os.Getenv(workerVariable); plan != "" {
		os.Exit(work(plan))
	}
	leaktest.Main(m, func() {
		if programDir != "" {
			_ = os.RemoveAll(programDir)
		}
	})
}

var programDir string

// buildDaemon builds the daemon once, as users run it.
var buildDaemon = sync.OnceValues(func() (program string, err error) {
	if programDir, err = os.MkdirTemp("", "shuffled-torture-"); err != nil {
		return "", err
	}
	program = filepath.Join(programDir, "shuffled")
	out, err := exec.Command("go", "build", "-o", program, "shuffled/cmd/shuffled").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the daemon: %w: %s", err, out)
	}
	return program, nil
})

// startDaemon starts a daemon on which nothing ends by time.
func startDaemon(t *testing.T, args ...string) *daemontest.Daemon {
	t.Helper()
	program, err := buildDaemon()
	require.NoError(t, err)
	return daemontest.Start(t, daemontest.Options{
		Program: program, Args: append([]string{"--memory", "256MiB", "--retention", "24h"}, args...),
	})
}

// A workerPlan is what a worker process is to do: one of these.
type workerPlan struct {
	Producer  *producerPlan
	Consumer  *consumerPlan
	Neighbour *neighbourPlan
}

// The kinds of events that a worker reports, one a line on its standard output.
const (
	created   = "created"   // producer: the partition is there
	committed = "committed" // producer: Records of each subpartition are flushed
	holding   = "holding"   // producer: stopped before a commit
	done      = "done"      // the last one: Outcome, and Consumer's result
)

type event struct {
	Kind    string
	Records uint64          `json:",omitempty"`
	Outcome *outcome        `json:",omitempty"`
	Result  *consumerResult `json:",omitempty"`
}

// An outcome is how a worker has ended.
type outcome struct {
	Error        string // empty for success
	ConsumerLost bool   // the error is shuffle.ErrConsumerLost
	Mappings     int64  // that are still there
}

// work is a worker process.
func work(text string) (code int) {
	var plan workerPlan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		fmt.Fprintln(os.Stderr, "plan:", err)
		return 2
	}
	output := json.NewEncoder(os.Stdout)
	tell := func(e event) {
		if err := output.Encode(e); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
			os.Exit(2)
		}
	}
	last := event{Kind: done}
	var err error
	switch {
	case plan.Producer != nil:
		err = produce(context.Background(), *plan.Producer, tell)
	case plan.Neighbour != nil:
		err = beNeighbour(*plan.Neighbour)
	default:
		var result consumerResult
		result, err = consume(context.Background(), *plan.Consumer)
		last.Result = &result
	}
	last.Outcome = &outcome{ConsumerLost: errors.Is(err, shuffle.ErrConsumerLost), Mappings: memseg.LiveMappings()}
	if err != nil {
		last.Outcome.Error = err.Error()
	}
	tell(last)
	return 0
}
