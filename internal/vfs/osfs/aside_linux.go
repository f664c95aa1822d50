package osfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// asideStep is how much is asked for at a time: what of it is not in memory is let
// go of as a whole.
const asideStep = 256 << 10

// ReadAside is ReadAt for somebody who reads everything once: pages that were not in
// memory are not there afterwards, those that were stay.
func (f *file) ReadAside(p []byte, off int64) (n int, err error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if f.aside.CompareAndSwap(false, true) {
		// What the kernel read ahead would be taken for what others want.
		if err := f.onFd("fadvise", func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM) }); err != nil {
			return 0, err
		}
	}
	for n < len(p) && err == nil {
		var got int
		got, err = f.readStep(p[n:min(n+asideStep, len(p))], off+int64(n))
		n += got
	}
	return n, err
}

func (f *file) readStep(p []byte, off int64) (int, error) {
	cached, unknown := 0, false
	err := f.onFd("preadv2", func(fd int) (err error) {
		cached, err = unix.Preadv2(fd, [][]byte{p}, off, unix.RWF_NOWAIT)
		return err
	})
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		unknown = true // a file system without it
	}
	cached = max(cached, 0)
	if cached == len(p) {
		return cached, nil
	}
	n, err := f.f.ReadAt(p[cached:], off+int64(cached))
	if n > 0 && !unknown {
		// It is a hint: that it can't be given changes nothing.
		_ = f.onFd("fadvise", func(fd int) error {
			return unix.Fadvise(fd, off+int64(cached), int64(n), unix.FADV_DONTNEED)
		})
	}
	return cached + n, err
}
