package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAUserCanNeitherFillTheAuditLogNorHideOthersInIt(t *testing.T) {
	var throttle auditThrottle
	now := time.Unix(1000, 0)
	allowed := func(uid uint32, tries int) (lines, dropped int) {
		for range tries {
			ok, n := throttle.allow(now, uid)
			if ok {
				lines++
			}
			dropped += n
		}
		return lines, dropped
	}
	require.Equal(t, []int{auditBurst, 0}, pair(allowed(1, 1000)))
	require.Equal(t, []int{3, 0}, pair(allowed(2, 3)))
	now = now.Add(time.Second)
	require.Equal(t, []int{2, 1000 - auditBurst}, pair(allowed(1, 2)), "how many there were is said later")
	require.Equal(t, []int{2, 0}, pair(allowed(2, 2)))
	now = now.Add(time.Second)
	allowed(3, 1)
	require.Len(t, throttle.users, 1, "nothing is kept of those who have stopped")
}

func pair(a, b int) []int { return []int{a, b} }
