// Package leaktest fails tests that leave something open, and says where that was
// opened: descriptors (those of shared objects among them) and mappings with the
// stack that opened them, goroutines with the stack that started them. A package's
// TestMain calls Main, a test Check. What memory and connections have open is known
// to internal/opened; anything else is named by what it refers to.
package leaktest
