//go:build !linux

package proc

import "syscall"

// attr gives a process no special attributes where the kernel does not kill
// children of a program that dies.
func attr() *syscall.SysProcAttr { return nil }
