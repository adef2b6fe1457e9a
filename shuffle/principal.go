package shuffle

// A Principal is who a peer is, by the word of the kernel. PID is for display.
type Principal struct {
	UID, GID uint32
	PID      int32
}
