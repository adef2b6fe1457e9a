package linktest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// OverMemories runs a test over heap memory and over mappings.
func OverMemories(t *testing.T, test func(t *testing.T, memory Memory)) {
	for _, memory := range Memories {
		t.Run(string(memory), func(t *testing.T) { test(t, memory) })
	}
}

// NewRandom returns a source of random numbers whose seed is logged. The
// variable SHUFFLED_SEED repeats a run.
func NewRandom(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SHUFFLED_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("SHUFFLED_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
