// Package vfstest is the conformance suite of vfs.FS. Every implementation runs
// it, so that what is proven over memory holds on a disk as far as calls go.
package vfstest
