package main

import (
	"os"
	"testing"
)

func TestDocumentIsUpToDate(t *testing.T) {
	got, err := os.ReadFile("../../../docs/APIS.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != render() {
		t.Error("docs/APIS.md differs from the table; run go generate ./protocol")
	}
}
