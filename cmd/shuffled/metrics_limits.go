package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"shuffled/internal/daemon"
)

// collectLimits shows each limit by the name of its flag.
func collectLimits(gauge func(d *prometheus.Desc, v float64, labels ...string), s *daemon.Snapshot) {
	for name, value := range map[string]float64{
		"memory":                  float64(s.Pool.Total) * float64(s.SegmentSize),
		"max-connections":         float64(s.Limits.Connections),
		"max-partitions":          float64(s.Limits.Partitions),
		"max-gates":               float64(s.Limits.Gates),
		"max-inputs-per-gate":     float64(s.Limits.InputsPerGate),
		"max-control-memory":      float64(s.Limits.ControlMemory),
		"max-heap-memory":         float64(s.Limits.HeapMemory),
		"max-connections-per-uid": float64(s.Limits.ConnectionsPerUID),
		"max-partitions-per-uid":  float64(s.Limits.PartitionsPerUID),
		"max-gates-per-uid":       float64(s.Limits.GatesPerUID),
		"max-memory-per-uid":      float64(s.Limits.MemoryPerUID),
		"descriptors":             float64(s.Limits.Descriptors),
	} {
		gauge(descLimit, value, name)
	}
}
