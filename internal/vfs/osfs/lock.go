package osfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes two locks on a file, without waiting: a flock, and a record lock on
// all of it, since the two kinds don't know of each other. The Java virtual
// machine, and so Apache Kafka, takes the latter.
func lock(f *os.File) error {
	if err := flock(f); err != nil {
		return err
	}
	return retried(func() error { return setRecordLock(f.Fd()) })
}

// locked reports whether another holder has one of them.
func locked(f *os.File) (bool, error) {
	err := flock(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		return false, err
	}
	return recordLocked(f.Fd())
}

func flock(f *os.File) error {
	return retried(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
}

// retried repeats a call that a signal interrupted.
func retried(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
