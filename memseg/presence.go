package memseg

// A Presence tells a reader of a partition region whether its memory is still there.
// The daemon takes it away from readers that an operator does not wait for any more,
// the page of the header before all others; what they load from then on is zeros.
// The zero value is that of memory that nobody takes away.
type Presence struct{ ready *Word }

// NewPresence returns the presence of a partition region whose header was checked.
func NewPresence(region *Region) Presence { return Presence{region.Word(hdrReady)} }

// Holds reports whether all that was loaded from the region before the call is what
// its producer wrote. The word that it looks at never changes before.
func (p Presence) Holds() bool {
	if p.ready == nil {
		return true
	}
	loadFence()
	return p.ready.loadConstant() == regionReady
}
