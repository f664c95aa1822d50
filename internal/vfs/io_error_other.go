//go:build !linux

package vfs

func isSystemIOError(error) bool { return false }
