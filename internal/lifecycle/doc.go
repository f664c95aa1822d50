// Package lifecycle is the one place that starts goroutines. Each has a name
// and belongs to a Group, so that an operator can see what runs and a test can
// see what was left running.
//
// It does not restart, time out or cancel anything: whoever starts a goroutine
// also gives it a way to end.
package lifecycle
