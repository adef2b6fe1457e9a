package ipc

import (
	"fmt"

	"shuffled/shuffle"
)

// The protocol versions that this build speaks. A version is raised by changes
// that an older peer would misunderstand; what it can ignore is a new field, and
// what both must know of is a bit of Features.
const (
	MinProtocolVersion uint32 = 1
	MaxProtocolVersion uint32 = 1
)

// Features are optional parts of the protocol, a bit each.
type Features uint64

// FeatureAbandonCreation is the message AbandonCreation.
const FeatureAbandonCreation Features = 1 << 0

// SupportedFeatures are the features that this build knows.
const SupportedFeatures = FeatureAbandonCreation

// CommonFeatures returns what both sides know. Bits that only one of them knows
// are off, whatever they mean.
func CommonFeatures(client, server Features) Features {
	return client & server
}

// Negotiate returns the highest version that both ranges hold. Ranges without a
// common version give an error that wraps shuffle.ErrVersionMismatch, names both
// and says which side must be upgraded. A range that holds no version at all
// gives one that wraps shuffle.ErrProtocol.
func Negotiate(clientMin, clientMax, serverMin, serverMax uint32) (uint32, error) {
	for _, side := range []struct {
		name     string
		min, max uint32
	}{{"client", clientMin, clientMax}, {"daemon", serverMin, serverMax}} {
		if side.min == 0 || side.min > side.max {
			return 0, fmt.Errorf("protocol versions of the %s: got min_version %d and max_version %d, want 1 <= min_version <= max_version: %w",
				side.name, side.min, side.max, shuffle.ErrProtocol)
		}
	}
	older := ""
	switch {
	case clientMax < serverMin:
		older = "client"
	case serverMax < clientMin:
		older = "daemon"
	default:
		return min(clientMax, serverMax), nil
	}
	return 0, fmt.Errorf("%w: the client speaks %s, the daemon %s: upgrade the %s", shuffle.ErrVersionMismatch,
		VersionRange(clientMin, clientMax), VersionRange(serverMin, serverMax), older)
}

// VersionRange words an inclusive range of versions.
func VersionRange(lowest, highest uint32) string {
	if lowest == highest {
		return fmt.Sprintf("version %d", lowest)
	}
	return fmt.Sprintf("versions %d to %d", lowest, highest)
}
