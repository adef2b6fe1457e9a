package bpf

// systemCallsOfArchitecture are older forms, of which this architecture has none.
var systemCallsOfArchitecture []systemCall
