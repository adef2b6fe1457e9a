package main

import (
	"os"
	"path/filepath"
)

// instanceName names a daemon over its restarts: by its socket, which no two
// daemons have at a time, among the processes that it can see.
func instanceName(socket string) string {
	if path, err := filepath.Abs(socket); err == nil {
		socket = path
	}
	processes, _ := os.Readlink("/proc/self/ns/pid") // "" where there are no namespaces
	return processes + " " + socket
}
