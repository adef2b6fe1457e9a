// Package protocodec is the codec of records that are protobuf messages: [Messages], for
// writer.NewAppending and the loops of package reader. It is a package by itself so that
// jobs with other records do not link protobuf for it.
package protocodec
