//go:build invariants

package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func recycleFirst(p *LocalBufferPool, segment int) { p.Recycle(segment, NoChannel) }

func TestSegmentRecycledTwicePanicsWithTheFirstRecycling(t *testing.T) {
	p := createLocal(t, newNetwork(t, 4), LocalConfig{Required: 2, Max: 2})
	segment := request(t, p, NoChannel)
	recycleFirst(p, segment)
	defer func() {
		panicked, _ := recover().(string)
		require.Contains(t, panicked, "is not handed out; first released by")
		require.Contains(t, panicked, "pool.recycleFirst")
	}()
	p.Recycle(segment, NoChannel)
}
