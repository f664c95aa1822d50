//go:build mutants

package mutant_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
)

func TestSetChoosesOneAndRestores(t *testing.T) {
	restore := mutant.Set("a")
	if !mutant.On("a") || mutant.On("b") {
		t.Error("after Set(a): want a on and b off")
	}
	inner := mutant.Set("b")
	if mutant.On("a") || !mutant.On("b") {
		t.Error("after Set(b): want b on and a off")
	}
	inner()
	if !mutant.On("a") {
		t.Error("the inner restore did not bring a back")
	}
	restore()
	if mutant.On("a") {
		t.Error("a is still on")
	}
}
