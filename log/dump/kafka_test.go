package dump_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log/dump"
)

var runKafka = flag.Bool("kafka", false, "run Kafka's own DumpLogSegments anew (needs Java)")

// kafkaDirs holds log directories that Apache Kafka 4.3.1 has written.
const kafkaDirs = "../../compat/golden/logdir"

// optionalLong is how Java prints a number that may be missing.
var optionalLong = regexp.MustCompile(`OptionalLong\[(-?\d+)\]`)

// kafkaFiles lists the files of one kind of stop that Kafka's tool can dump.
// It fails on indexes without entries, which are left out.
func kafkaFiles(t *testing.T, stop string) []string {
	t.Helper()
	var files []string
	all, err := filepath.Glob(filepath.Join(kafkaDirs, stop, "*-*", "0*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch filepath.Ext(path) {
		case ".index", ".timeindex":
			if len(bytes.Trim(b, "\x00")) == 0 {
				continue
			}
		case ".log", ".snapshot", ".txnindex":
		default:
			continue
		}
		files = append(files, path)
	}
	slices.Sort(files)
	return files
}

// TestSameFactsAsKafka compares our text with that of Kafka's DumpLogSegments
// over the same files, line by line. Only our remarks are left out, and Java's
// way to print a number that may be missing is put into ours.
func TestSameFactsAsKafka(t *testing.T) {
	for _, stop := range []string{"clean", "killed"} {
		files := kafkaFiles(t, stop)
		golden := filepath.Join("testdata", "kafka_"+stop+".txt")
		if *runKafka {
			rewriteGolden(t, golden, files)
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		found, err := dump.Run(osfs.New(), files, dump.Options{Data: true}, &out)
		if err != nil || found {
			t.Errorf("%s: found %v, error %v", stop, found, err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			if !strings.HasPrefix(line, "! ") && !strings.HasPrefix(line, "~ ") {
				got = append(got, line)
			}
		}
		wantLines := slices.Collect(strings.Lines(string(want)))
		if len(wantLines) < 200 {
			t.Errorf("%s: Kafka's output has only %d lines", stop, len(wantLines))
		}
		for i := range max(len(got), len(wantLines)) {
			if i >= len(got) || i >= len(wantLines) || got[i] != wantLines[i] {
				t.Fatalf("%s line %d:\nours  %sKafka %s", stop, i+1, at(got, i), at(wantLines, i))
			}
		}
	}
}

func at(lines []string, i int) string {
	if i >= len(lines) {
		return "(end)\n"
	}
	return lines[i]
}

func rewriteGolden(t *testing.T, golden string, files []string) {
	t.Helper()
	jars, err := kafka.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := jars.Run(t.Context(), nil, kafka.DumpLog,
		"--deep-iteration", "--print-data-log", "--files", strings.Join(files, ","))
	if err != nil || r.Exit != 0 {
		t.Fatalf("exit %d: %v\n%s", r.Exit, err, r.All())
	}
	text := optionalLong.ReplaceAllString(string(r.Stdout), "$1")
	text = strings.ReplaceAll(text, "OptionalLong.empty", "none")
	if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
