package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark/tidemark/tidemarktest"
)

// TestCommands runs the command lines of testdata against a broker and compares
// all that they print and their exit codes. Numbers that differ from run to run
// are masked. With -rewrite it writes down what it saw.
func TestCommands(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("testdata: %d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			c := tidemarktest.Start(t, tidemarktest.Options{})
			s := &shell{t: t, addr: c.Addrs()[0]}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd == "stdin" {
					s.stdin = d.Input + "\n"
					return ""
				}
				return s.run(d.Input)
			})
		})
	}
}

// shell runs command lines as a shell would, one after the other.
type shell struct {
	t     *testing.T
	addr  string
	stdin string // of the next command
}

func (s *shell) run(script string) string {
	var out strings.Builder
	for _, line := range strings.Split(script, "\n") {
		args := strings.Fields(line)
		if needsBroker(args[0]) {
			args = append(args, "--bootstrap-server", s.addr)
		}
		var stdout, stderr bytes.Buffer
		root := newRoot(streams{in: strings.NewReader(s.stdin), out: &stdout, err: &stderr})
		s.stdin = ""
		root.SetArgs(args)
		err := root.ExecuteContext(s.t.Context())
		out.WriteString(stdout.String())
		for _, l := range strings.SplitAfter(stderr.String(), "\n") {
			if l != "" {
				out.WriteString("! " + l)
			}
		}
		if err != nil {
			fmt.Fprintf(&out, "! tidemark: %v\n", err)
		}
		if code := exitCode(err); code != 0 {
			fmt.Fprintf(&out, "exit %d\n", code)
		}
	}
	return s.mask(out.String())
}

func needsBroker(command string) bool {
	switch command {
	case "topic", "quorum", "produce", "consume":
		return true
	}
	return false
}

var masked = regexp.MustCompile(`\b(id|directory|end|high-watermark|epoch)=([0-9]+|[A-Za-z0-9_-]{22})\b`)

// mask hides what is drawn or counted anew in each run. Offsets of topics are
// neither.
func (s *shell) mask(out string) string {
	out = strings.ReplaceAll(out, s.addr, "ADDR")
	var lines []string
	for _, l := range strings.Split(out, "\n") {
		if strings.HasPrefix(l, "  partition=") {
			lines = append(lines, l)
			continue
		}
		lines = append(lines, masked.ReplaceAllString(l, "$1=*"))
	}
	return strings.Join(lines, "\n")
}

func TestMain(m *testing.M) {
	// The environment is one of the sources of settings.
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "KAFKA_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}
