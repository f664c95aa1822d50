//go:build !linux

package server

import (
	"errors"
	"io"
)

// On other systems connections are read and written through package net alone.

const haveSocket = false

func (c *Conn) writeFd(uintptr) bool { c.err = errors.ErrUnsupported; return true }

func (c *Conn) readFd(uintptr) bool { c.readErr = io.EOF; return true }

func setCongestion(uintptr, string) error { return errors.ErrUnsupported }

// setBuffer leaves the buffers to the kernel: a size that can't be asked for is
// no reason not to serve.
func setBuffer(uintptr, int, int) error { return nil }
