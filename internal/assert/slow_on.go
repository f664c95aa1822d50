//go:build invariants || race

package assert

// SlowEnabled says whether Slow runs its check in this build.
const SlowEnabled = true
