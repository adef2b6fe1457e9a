//go:build !race && !schedules

package memseg

func accessPoint() {}

func scheduledSleep(*Word32, uint32) bool { return false }

func scheduledWake(*Word32) bool { return false }

func isScheduled() bool { return false }
