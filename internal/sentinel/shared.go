package sentinel

// The sentinels that several packages return. Each declares those that it returns as
// errors of its own; they are the same values, so that errors.Is finds what a package
// below has returned by the name that users know.
var (
	Closed              = New("closed")
	EventTooLarge       = New("event too large")
	Fault               = New("memory fault in shared region")
	InsufficientBuffers = New("insufficient number of network buffers")
	InvalidArgument     = New("invalid argument")
	NoMemory            = New("out of shared memory")
	Released            = New("buffer was released")
)
