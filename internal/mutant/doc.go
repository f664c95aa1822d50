// Package mutant plants known bugs in the product, so that the tests and the
// simulator can be shown to find them.
//
// A mutant is a line such as
//
//	if mutant.On("loop-lost-wakeup") { ... }
//
// In a plain build On is the constant false and the compiler removes the
// branch. In a build with the tag mutants one name is chosen at run time, by
// the environment variable TIDEMARK_MUTANT or by Set in a test. All names are
// registered in Names; the tidy test compares that list with the code.
package mutant
