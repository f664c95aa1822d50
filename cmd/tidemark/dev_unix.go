//go:build unix

package main

import "syscall"

// ownGroup keeps a terminal's interrupt away from the nodes: they are stopped in
// order by the process that started them.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
