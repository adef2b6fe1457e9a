package partition

import (
	"testing"
	"time"

	"shuffled/memseg"
)

// SetCacheSize has the writers of a test keep their distance once their consumer
// was given more than n bytes.
func SetCacheSize(t testing.TB, n int) {
	before := cacheSize
	cacheSize = n
	t.Cleanup(func() { cacheSize = before })
}

// OpenBuffer returns the builder of a subpartition's open buffer.
func (p *ResultPartition) OpenBuffer(subpartition int) *memseg.BufferBuilder {
	return p.subpartitions[subpartition].builder
}

// SleepLong has the writers of a test sleep for a minute if they are not woken, so
// that one that ought to be woken holds the test up.
func SleepLong(t testing.TB) {
	before := maxWait
	maxWait = memseg.MaxParkTime
	t.Cleanup(func() { maxWait = before })
}

// MaxWait is the bound of a writer's sleep that the documentation names.
var MaxWait = maxWait

// SetDaemonLostGrace sets how long the writers of a test wait without their daemon
// when nothing moves.
func SetDaemonLostGrace(t testing.TB, d time.Duration) {
	before := daemonLostGrace
	daemonLostGrace = d
	t.Cleanup(func() { daemonLostGrace = before })
}
