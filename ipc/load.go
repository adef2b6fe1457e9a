package ipc

// A Load is what is under way to a peer: sent, or about to be, and not received.
type Load struct {
	Bytes       int64 // with what the kernel takes beside them
	Descriptors int64
}

// PacketCost is what the kernel takes for a packet beside its bytes.
const PacketCost = 1024

// What a message of Outbox.PostFunc takes at most.
const (
	SmallMessage       = 16 << 10
	MessageDescriptors = 2
)

// Add adds another load, or with a sign of -1 takes it off.
func (l *Load) Add(other Load, sign int64) {
	l.Bytes += sign * other.Bytes
	l.Descriptors += sign * other.Descriptors
}

// Fits reports whether there is room for more below a limit.
func (l Load) Fits(more, limit Load) bool {
	return l.Bytes+more.Bytes <= limit.Bytes && l.Descriptors+more.Descriptors <= limit.Descriptors
}
