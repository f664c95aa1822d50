package main

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/CLI.md instead of comparing with it")

const referencePath = "../../docs/CLI.md"

func TestReferenceIsCurrent(t *testing.T) {
	var got bytes.Buffer
	writeReference(&got, newRoot(streams{}))
	if *update {
		if err := os.WriteFile(referencePath, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatal("docs/CLI.md is stale: run go generate ./cmd/tidemark")
	}
}
