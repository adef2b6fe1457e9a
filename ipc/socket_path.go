package ipc

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"shuffled/shuffle"
)

// MaxSocketPath is the length in bytes that the path of a socket may have: the
// kernel's sun_path holds it and a final NUL.
const MaxSocketPath = len(unix.RawSockaddrUnix{}.Path) - 1

// CheckSocketPath refuses a path that no socket can have, before it is dialled or
// listened on; the kernel's own error would be a bare "invalid argument". The
// error wraps shuffle.ErrInvalidArgument. Abstract names ("@name") are refused
// too: they have no owner and no mode, so any process could take or dial them.
func CheckSocketPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("socket path is empty: %w", shuffle.ErrInvalidArgument)
	case path[0] == '@':
		return fmt.Errorf("socket path %q is an abstract name, want a path in the file system: %w", path,
			shuffle.ErrInvalidArgument)
	case strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("socket path %q holds a NUL byte: %w", path, shuffle.ErrInvalidArgument)
	case len(path) > MaxSocketPath:
		return fmt.Errorf("socket path %s: got %d bytes, limit %d: use a shorter directory or a path relative to it: %w",
			path, len(path), MaxSocketPath, shuffle.ErrInvalidArgument)
	}
	return nil
}
