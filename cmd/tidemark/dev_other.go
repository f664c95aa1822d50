//go:build !unix

package main

import "syscall"

// ownGroup is of use where interrupts go to process groups.
func ownGroup() *syscall.SysProcAttr { return nil }
