package registry

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"

	"shuffled/shuffle"
)

// access says who may read a partition beside its owner and root: the users and
// groups that it allows, and whoever shows its token. A nil access allows nobody
// else.
type access struct {
	uids, gids []uint32
	token      [sha256.Size]byte
	hasToken   bool
}

func newAccess(spec *shuffle.PartitionSpec) *access {
	if len(spec.AllowedUIDs) == 0 && len(spec.AllowedGIDs) == 0 && spec.Token == "" {
		return nil
	}
	return &access{
		uids: slices.Clone(spec.AllowedUIDs), gids: slices.Clone(spec.AllowedGIDs),
		token: sha256.Sum256([]byte(spec.Token)), hasToken: spec.Token != "",
	}
}

// allows compares tokens in a time that does not depend on them.
func (a *access) allows(owner uint32, who shuffle.Principal, token string) bool {
	if who.UID == owner || who.UID == 0 {
		return true
	}
	if a == nil {
		return false
	}
	shown := sha256.Sum256([]byte(token))
	matches := subtle.ConstantTimeCompare(shown[:], a.token[:]) == 1
	return slices.Contains(a.uids, who.UID) || slices.Contains(a.gids, who.GID) || a.hasToken && matches
}

// bytes is about what it takes of the heap.
func (a *access) bytes() int {
	if a == nil {
		return 0
	}
	return 112 + 4*(len(a.uids)+len(a.gids))
}

// A Refusal is an attempt to read a partition by somebody who may not. Whoever
// tried is told what it would be told if there were no such partition.
type Refusal struct {
	Who       shuffle.Principal
	Action    string // "read" or "inspect"
	Partition shuffle.PartitionID
	Name      string
	Owner     uint32
}
