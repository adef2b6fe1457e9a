package writer

import (
	"math"
	"math/bits"
)

// MaxKeyGroups is the largest number of key groups.
const MaxKeyGroups = 32768

// KeyGroup returns the key group, 0 to maxParallelism-1, of a key's hash: the
// Murmur3 hash of its four bytes, made positive, modulo maxParallelism. It is
// Flink's assignment, so jobs agree on it. Here and below, a number of key groups or
// subpartitions below 1 counts as 1.
func KeyGroup(hash uint32, maxParallelism int) int {
	return int(murmur(hash)) % max(maxParallelism, 1)
}

func murmur(hash uint32) int32 {
	h := hash * 0xcc9e2d51
	h = bits.RotateLeft32(h, 15) * 0x1b873593
	h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	h ^= 4 // the number of bytes hashed
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	// The absolute value, and 0 of the one number that has none, without a branch:
	// half of all hashes would take it, at random.
	sign := int32(h) >> 31
	return ((int32(h) ^ sign) - sign) & math.MaxInt32
}

// OperatorIndex returns which of so many subpartitions a key group belongs to.
func OperatorIndex(maxParallelism, subpartitions, keyGroup int) int {
	return keyGroup * max(subpartitions, 1) / max(maxParallelism, 1)
}

// KeyGroupRange returns the first and last key group of a subpartition.
func KeyGroupRange(maxParallelism, subpartitions, index int) (first, last int) {
	maxParallelism, subpartitions = max(maxParallelism, 1), max(subpartitions, 1)
	first = (index*maxParallelism + subpartitions - 1) / subpartitions
	last = ((index+1)*maxParallelism - 1) / subpartitions
	return first, last
}

// DefaultMaxParallelism returns the number of key groups for so many
// subpartitions: one and a half times as many, rounded up to a power of two,
// from 128 to MaxKeyGroups.
func DefaultMaxParallelism(subpartitions int) int {
	n := subpartitions + subpartitions/2
	return min(max(1<<bits.Len(uint(n-1)), 128), MaxKeyGroups)
}

// HashString hashes a string as Java's String.hashCode does for text whose
// UTF-16 units are its bytes, that is for ASCII; other text gets a stable hash
// over its UTF-8 bytes.
func HashString(s string) uint32 {
	var h uint32
	for i := range len(s) {
		h = 31*h + uint32(s[i])
	}
	return h
}

// HashBytes is HashString of bytes.
func HashBytes(b []byte) uint32 {
	var h uint32
	for _, c := range b {
		h = 31*h + uint32(c)
	}
	return h
}

// HashInt64 hashes as Java's Long.hashCode does.
func HashInt64(v int64) uint32 { return uint32(v) ^ uint32(uint64(v)>>32) }

// HashInt32 hashes as Java's Integer.hashCode does.
func HashInt32(v int32) uint32 { return uint32(v) }

// HashBool hashes as Java's Boolean.hashCode does.
func HashBool(v bool) uint32 {
	if v {
		return 1231
	}
	return 1237
}
