package vfs

import (
	"errors"
	"syscall"
)

// isSystemIOError knows what the block layer and the file systems of Linux also say:
// a sector that can't be read, a device over a network that is gone, a file system
// that found itself damaged.
func isSystemIOError(err error) bool {
	return errors.Is(err, syscall.ENODATA) || errors.Is(err, syscall.EREMOTEIO) || errors.Is(err, syscall.EUCLEAN)
}
