package tidy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/internal/tidy"
)

// root is the directory of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

func TestModule(t *testing.T) {
	dir := root(t)
	tree, err := tidy.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 50 {
		t.Fatalf("found only %d Go files below %s", len(tree.Files), dir)
	}
	var names []string
	for _, m := range mutant.Names() {
		names = append(names, m.Name)
	}
	for _, f := range tidy.Check(tree, names) {
		t.Error(f)
	}
	for _, f := range tidy.CheckIgnored(dir) {
		t.Error(f)
	}
}
