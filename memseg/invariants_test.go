//go:build invariants

package memseg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func releaseFirst(r *references) { r.release() }

func TestReferenceBelowZeroPanicsWithTheFirstRelease(t *testing.T) {
	r := &references{token: 7}
	r.count.Store(1)
	releaseFirst(r)
	defer func() {
		panicked, _ := recover().(string)
		require.Contains(t, panicked, "element 7 was released more often than retained; first released by")
		require.Contains(t, panicked, "memseg.releaseFirst")
	}()
	r.release()
}
