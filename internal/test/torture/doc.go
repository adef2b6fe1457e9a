// Package torture holds tests that kill workers of a real daemon at random
// moments and look at what is left: everybody who lives ends well, and the
// daemon holds what it held before. Beside that, an honest job runs among hostile and
// careless neighbours of other users, in a small memory cgroup.
//
// SHUFFLED_TORTURE_ROUNDS sets the number of rounds, SHUFFLED_TORTURE_SEED
// repeats a run's choices; its timing is the machine's.
package torture
