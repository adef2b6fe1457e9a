package main

import "runtime/debug"

// programVersion returns the version that the linker set, else the one that the
// go command recorded: of the module, or of the commit it was built from.
func programVersion() string {
	if version != "unknown" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return version
}
