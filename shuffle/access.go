package shuffle

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
)

// A Principal is who a peer is, by the word of the kernel. PID is for display.
type Principal struct {
	UID, GID uint32
	PID      int32
}

// access says who may read a partition: its creator and root, the users and
// groups that it allows, and whoever shows its token.
type access struct {
	owner      uint32
	uids, gids []uint32
	token      [sha256.Size]byte
	hasToken   bool
}

func newAccess(owner uint32, spec PartitionSpec) *access {
	return &access{
		owner: owner, uids: slices.Clone(spec.AllowedUIDs), gids: slices.Clone(spec.AllowedGIDs),
		token: sha256.Sum256([]byte(spec.Token)), hasToken: spec.Token != "",
	}
}

// allows compares tokens in a time that does not depend on them.
func (a *access) allows(who Principal, token string) bool {
	shown := sha256.Sum256([]byte(token))
	matches := subtle.ConstantTimeCompare(shown[:], a.token[:]) == 1
	return who.UID == a.owner || who.UID == 0 ||
		slices.Contains(a.uids, who.UID) || slices.Contains(a.gids, who.GID) || a.hasToken && matches
}
