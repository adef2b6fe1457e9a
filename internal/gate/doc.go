// Package gate is the consumer's end of many subpartitions at once: an [InputGate]
// merges their views into one stream, and a [Loop] reads the records in it.
//
// Whoever hosts a gate, which is package client, makes it, gives its channels their
// views, and says why one of them, or all, get no more. Users have
// shuffle.InputGate and package reader.
package gate
