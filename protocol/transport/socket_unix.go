//go:build unix

package transport

import "golang.org/x/sys/unix"

func setBuffer(fd uintptr, option, n int) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, n)
}
