package proc

import "syscall"

// attr gives a process a group of its own, so that a terminal's ^C reaches only
// the test program, and has the kernel kill it when the test program dies.
func attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
