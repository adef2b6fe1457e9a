package pool

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m)
}

// newRandom returns a source of random numbers whose seed is logged. The variable
// SHUFFLED_TEST_SEED repeats a run.
func newRandom(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SHUFFLED_TEST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("SHUFFLED_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
