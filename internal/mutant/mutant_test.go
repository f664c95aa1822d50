package mutant_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

func TestNamesAreSortedAndUnique(t *testing.T) {
	names := mutant.Names()
	if !slices.IsSortedFunc(names, func(a, b mutant.Mutant) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("Names() is not sorted")
	}
	for i, m := range names {
		if m.Bug == "" {
			t.Errorf("%s does not say what goes wrong", m.Name)
		}
		if i > 0 && names[i-1].Name == m.Name {
			t.Errorf("%s is listed twice", m.Name)
		}
	}
}

func TestPlainBuildIsFreeOfMutants(t *testing.T) {
	if mutant.Enabled {
		t.Skip("built with the tag mutants")
	}
	t.Setenv("TIDEMARK_MUTANT", "loop-lost-wakeup")
	if mutant.On("loop-lost-wakeup") {
		t.Error("a mutant is on in a build without the tag")
	}
}
