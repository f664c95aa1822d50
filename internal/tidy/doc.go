// Package tidy holds the rules of the source tree that no compiler keeps: which
// package may know which, what is banned where, and how long things may get.
// Its test reads the whole module and prints, for each breach, the reason of
// the rule.
//
// It reads syntax; only to know that a range is over a map does it work out
// types, of the module's own packages. All else is left to go vet and
// golangci-lint.
//
// The arrows are a literal table in arrows.go. A new package needs a row there,
// which is the moment to think about what it should know.
package tidy
