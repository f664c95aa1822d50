package osfs

import (
	"io"

	"golang.org/x/sys/unix"
)

// whole is a lock on all of a file, however long it becomes.
func whole() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart} }

// setRecordLock takes a record lock that belongs to the open file, and not, as
// POSIX has it, to the process, which would lose it whenever it closed another
// opening of the file.
func setRecordLock(fd uintptr) error { return unix.FcntlFlock(fd, unix.F_OFD_SETLK, whole()) }

func recordLocked(fd uintptr) (bool, error) {
	l := whole()
	if err := unix.FcntlFlock(fd, unix.F_OFD_GETLK, l); err != nil {
		return false, err
	}
	return l.Type != unix.F_UNLCK, nil
}
