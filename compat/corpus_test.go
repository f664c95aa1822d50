//go:build compat

package compat_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The corpus is real text of at least this size: the Go library's source, line
// by line, which every machine that can run these tests has.
const (
	corpusBytes = 20 << 20
	corpusLines = 200_000
)

// corpus is a file of lines and what it must read as after a way through a
// broker.
type corpus struct {
	path  string
	lines int
	sum   string // hex SHA-256 of the file
}

// makeCorpus writes the corpus to a file. keyed puts "k<n>" and a tab before
// each line. Empty lines are left out: kcat does not produce them.
func makeCorpus(t *testing.T, keyed bool) corpus {
	t.Helper()
	c := corpus{path: filepath.Join(t.TempDir(), fmt.Sprintf("corpus-%v.txt", keyed))}
	f, err := os.Create(c.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hash, w := sha256.New(), bufio.NewWriterSize(f, 1<<20)
	size, lines := 0, 0
	err = eachSourceLine(goRoot(t), func(line []byte) bool {
		if keyed {
			line = append(fmt.Appendf(nil, "k%d\t", lines%1000), line...)
		}
		line = append(line, '\n')
		hash.Write(line)
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
		size, lines = size+len(line), lines+1
		return size < corpusBytes || lines < corpusLines
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if size < corpusBytes || lines < corpusLines {
		t.Fatalf("the corpus has %d bytes in %d lines, want %d and %d", size, lines, corpusBytes, corpusLines)
	}
	c.lines, c.sum = lines, hex.EncodeToString(hash.Sum(nil))
	return c
}

// goRoot is where the Go toolchain lies.
func goRoot(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, nil, "go", "env", "GOROOT").Stdout)
}

// eachSourceLine calls fn with the lines of the Go library's source, in the
// order of file names, until fn is false.
func eachSourceLine(root string, fn func(line []byte) bool) error {
	return filepath.WalkDir(filepath.Join(root, "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(data) {
			line = bytes.TrimRight(line, "\r\n")
			if len(line) > 0 && !fn(bytes.Clone(line)) {
				return fs.SkipAll
			}
		}
		return nil
	})
}

// open returns the corpus as a reader that the test's end closes.
func (c corpus) open(t *testing.T) io.Reader {
	t.Helper()
	f, err := os.Open(c.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}
