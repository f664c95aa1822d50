//go:build mutants

package mutant

import (
	"os"
	"sync/atomic"
)

// Enabled says whether this build can run mutants.
const Enabled = true

// chosen is nil until the first look at the environment.
var chosen atomic.Pointer[string]

// On reports whether the named mutant is the chosen one.
func On(name string) bool {
	p := chosen.Load()
	if p == nil {
		env := os.Getenv("TIDEMARK_MUTANT")
		chosen.CompareAndSwap(nil, &env)
		p = chosen.Load()
	}
	return *p == name
}

// Set chooses a mutant, or none with "", and returns a function that restores
// the earlier choice. For tests.
func Set(name string) (restore func()) {
	On("")
	old := chosen.Swap(&name)
	return func() { chosen.Store(old) }
}
