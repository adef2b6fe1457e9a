// Package cli has what the command lines of all programs share: how they tell
// that they were mistyped, and manual pages.
package cli
