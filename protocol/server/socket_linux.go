package server

import (
	"io"

	"golang.org/x/sys/unix"
)

const haveSocket = true

// writeFd is called by RawConn.Write, first at once and then whenever the socket
// can take bytes again; false means to wait for that.
func (c *Conn) writeFd(fd uintptr) (done bool) {
	before := c.todo()
	for c.todo() > 0 {
		n, err := c.writeOnce(int(fd))
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			// After some progress the caller renews the deadline before the
			// wait.
			return !c.wait || c.todo() < before
		case err != nil:
			c.err = err
			return true
		case n == 0:
			c.err = io.ErrUnexpectedEOF // the file is shorter than the region
			return true
		}
	}
	return true
}

func (c *Conn) writeOnce(fd int) (n int, err error) {
	switch {
	case c.file != nil:
		n, err = unix.Sendfile(fd, int(c.file.Fd()), &c.filePos, c.fileBytes)
		if n > 0 {
			c.fileBytes -= n
		}
	case c.more:
		n, err = unix.SendmsgN(fd, c.left, nil, nil, unix.MSG_MORE)
		if n > 0 {
			c.left = c.left[n:]
		}
	default:
		n, err = unix.Write(fd, c.left)
		if n > 0 {
			c.left = c.left[n:]
		}
	}
	return n, err
}

// readFd is called by RawConn.Read, first at once and then whenever bytes have
// come; false means to wait for that. What a waiting connection holds of memory
// is decided here.
func (c *Conn) readFd(fd uintptr) (done bool) {
	c.beforeRead()
	for {
		n, err := unix.Read(int(fd), c.in.buf[c.w:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			c.beforeWait()
			return false
		case err != nil:
			c.readErr = err
		case n == 0:
			c.readErr = io.EOF
		default:
			c.w += n
		}
		return true
	}
}

func setCongestion(fd uintptr, name string) error {
	return unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
}

func setBuffer(fd uintptr, option, n int) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, n)
}
