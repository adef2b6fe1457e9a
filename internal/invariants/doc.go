// Package invariants has what a build with the tag invariants checks beside its work: it
// poisons released memory and remembers who released first. Without the tag all of it is
// constant or empty, and costs nothing.
package invariants
