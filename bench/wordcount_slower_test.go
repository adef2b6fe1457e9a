package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWordCountThatIsSlowerSaysWhy(t *testing.T) {
	j := WordCount{Producers: 2, Consumers: 2}
	require.Contains(t, j.whySlower(2), "why not faster: 4 workers share 2 cores, and each word")
	require.Contains(t, j.whySlower(1), "4 workers share 1 core, and")
}
