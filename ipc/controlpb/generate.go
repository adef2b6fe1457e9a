// Package controlpb holds the messages of the control protocol, generated from
// control.proto. What they mean and in which order they travel is described in
// docs/protocol.md; package ipc sends and receives them.
//
// The file is registered with the protobuf runtime under the name of its
// package, shuffled/control/v1/control.proto, since the runtime refuses to
// start a program in which two files are called control.proto.
package controlpb

//go:generate sh -c "protoc --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) -I shuffled/control/v1=. --go_out=. --go_opt=module=shuffled/ipc/controlpb shuffled/control/v1/control.proto"
