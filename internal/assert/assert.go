package assert

import (
	"fmt"
	"unsafe"
)

// Failure is what a broken assertion panics with.
type Failure struct {
	// Message says what was expected and what was found.
	Message string
}

// Error returns the message.
func (f *Failure) Error() string { return "assertion failed: " + f.Message }

// That panics with a *Failure unless cond holds. The message is formatted only
// then, and the arguments of a holding assertion are not moved to the heap.
func That(cond bool, format string, args ...any) {
	if !cond {
		fail(format, hide(args))
	}
}

// Unreachable panics with a *Failure. It marks a case that no caller can cause.
func Unreachable(format string, args ...any) {
	fail("unreachable: "+format, args)
}

// Slow runs a check that is too dear for production, in builds with the tag
// invariants or the race detector. The check asserts by itself.
func Slow(check func()) {
	if SlowEnabled {
		check()
	}
}

//go:noinline
func fail(format string, args []any) {
	panic(&Failure{Message: fmt.Sprintf(format, args...)})
}

// hide returns args unchanged, but keeps the compiler from seeing that they
// reach fmt, which would put the arguments of every assertion on the heap. It
// is sound because fail formats them at once and keeps none.
func hide(args []any) []any {
	words := *(*[3]uintptr)(unsafe.Pointer(&args))
	return *(*[]any)(unsafe.Pointer(&words))
}
