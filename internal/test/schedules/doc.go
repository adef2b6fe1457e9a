// Package schedules runs the real code of a hand-over, from ResultPartition to
// InputGate, in every order of its accesses to shared words that a given number
// of preemptions allows, and in random orders beyond that. Sleepers never time
// out there: a wake-up that is lost, which the bounds of production code would
// turn into a delay, leaves its sleeper asleep and fails the test.
//
// Its tests need the race detector or the build tag "schedules".
package schedules
