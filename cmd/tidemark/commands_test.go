package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/tidemarktest"
)

// TestCommands runs the command lines of testdata against a broker and compares
// all that they print and their exit codes. Numbers that differ from run to run
// are masked. "run only=X" keeps the lines with X, "run counted" masks every number,
// "file NAME" writes a file, "segment NAME [cut=N]" one with records, or their first N bytes, into a directory that
// reads DIR in the command lines and in what they print, "cut NAME" makes a receipt
// for it in DIR/kept. ADDR is the broker. With -rewrite it writes down what it saw.
func TestCommands(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("testdata: %d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			c := tidemarktest.Start(t, tidemarktest.Options{})
			s := &shell{t: t, addr: c.Addrs()[0], dir: t.TempDir()}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "stdin":
					s.stdin = d.Input + "\n"
					return ""
				case "file":
					s.write(d.CmdArgs[0].Key, []byte(d.Input+"\n"))
					return ""
				case "segment":
					set := logtest.Batches(0, 3, 0)
					set = append(set, logtest.Batch(logtest.Spec{Base: 3, Epoch: 2, Records: 2, Timestamp: 2000})...)
					if n := len(set); d.HasArg("cut") {
						d.ScanArgs(t, "cut", &n)
						set = set[:n]
					}
					s.write(d.CmdArgs[0].Key, set)
					return ""
				case "cut":
					s.cut(d.CmdArgs[0].Key)
					return ""
				}
				out := s.run(d.Input)
				if d.HasArg("counted") {
					out = numbers.ReplaceAllString(out, "#")
				}
				for _, a := range d.CmdArgs {
					if a.Key == "only" {
						out = linesWith(out, a.Vals[0])
					}
				}
				return out
			})
		})
	}
}

// shell runs command lines as a shell would, one after the other.
type shell struct {
	t     *testing.T
	addr  string
	dir   string
	stdin string // of the next command
}

// numbers are numbers with their units, and digests.
var numbers = regexp.MustCompile(`\b(hash=[0-9a-f]+|[0-9]+(\.[0-9]+)?(µs|ms|s)?)\b`)

func linesWith(text, part string) string {
	var kept strings.Builder
	for _, l := range strings.SplitAfter(text, "\n") {
		if strings.Contains(l, part) {
			kept.WriteString(l)
		}
	}
	return kept.String()
}

func (s *shell) write(name string, data []byte) {
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// cut makes a receipt for all bytes of a file, in DIR/kept.
func (s *shell) cut(name string) {
	path := filepath.Join(s.dir, name)
	info, err := os.Stat(path)
	if err != nil {
		s.t.Fatal(err)
	}
	store := receipt.New(receipt.Options{FS: osfs.New(), Dir: filepath.Join(s.dir, "kept"), Node: 1, BytesMax: 1 << 20, RetentionMs: -1})
	_, err = store.Keep(1_800_000_000_000, receipt.Subject{
		TP: model.TopicPartition{Topic: "orders"}, Dir: "/data", Cause: receipt.UncleanElection, HighWatermark: 4, Detail: "broker 2 leads",
	}, &log.Removal{
		Bytes: info.Size(), Start: 0, End: 5, Batches: 4, Records: 5,
		Parts: []log.Part{{File: path, Bytes: info.Size()}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *shell) run(script string) string {
	var out strings.Builder
	for _, line := range strings.Split(script, "\n") {
		args := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(line, "DIR", s.dir), "ADDR", s.addr))
		if needsBroker(args) {
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

func needsBroker(args []string) bool {
	switch args[0] {
	case "topic", "quorum", "produce", "consume", "perf":
		return true
	}
	return slices.Contains(args, "--topic")
}

// clock is a wall clock reading.
var clock = regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z\b`)

var masked = regexp.MustCompile(`\b(id|directory|end|high-watermark|epoch)=([0-9]+|[A-Za-z0-9_-]{22})\b`)

// mask hides what is drawn or counted anew in each run. Offsets of topics are
// neither.
func (s *shell) mask(out string) string {
	out = strings.ReplaceAll(strings.ReplaceAll(out, s.addr, "ADDR"), s.dir, "DIR")
	out = clock.ReplaceAllString(out, "TIME")
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
