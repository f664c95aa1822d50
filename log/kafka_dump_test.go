//go:build compat

package log_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/compat/kafka"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Kafka's own dump tool reads what random operations leave, every kind of file,
// and finds no mismatch.
func TestKafkaReadsEveryFile(t *testing.T) {
	jars, err := kafka.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, last := seedRange(t, 3)
	for seed := first; seed < last; seed++ {
		w := newWorld(t, seed)
		for range 80 {
			w.step()
		}
		w.append() // so that no segment list is empty
		w.must(w.l.Close(true))
		names, err := w.fs.List(testDir)
		w.must(err)
		dir := t.TempDir()
		var files, txns []string
		for _, name := range names {
			b, err := vfs.ReadFile(w.fs, filepath.Join(testDir, name))
			w.must(err)
			path := filepath.Join(dir, name)
			w.must(os.WriteFile(path, b, 0o644))
			switch filepath.Ext(name) {
			case ".log", ".index", ".timeindex", ".snapshot":
				files = append(files, path)
			case ".txnindex":
				txns = append(txns, path)
			}
		}
		files = append(files, txns...)
		r, err := jars.Run(t.Context(), nil, kafka.DumpLog, "--deep-iteration", "--print-data-log", "--files", strings.Join(files, ","))
		w.must(err)
		out := r.All()
		for _, bad := range []string{"mismatch", "Mismatch", "isvalid: false", "xception", "Found ", "out of order", "non-consecutive", "not found"} {
			if i := strings.Index(out, bad); i >= 0 {
				t.Errorf("seed %d: %q in\n%s", seed, bad, out[max(0, i-200):min(len(out), i+900)])
			}
		}
		if r.Exit != 0 || strings.Count(out, "Dumping ") != len(files) || !strings.Contains(out, "isvalid: true") {
			t.Errorf("seed %d: exit %d, %d of %d files dumped\n%.3000s", seed, r.Exit, strings.Count(out, "Dumping "), len(files), out)
		}
	}
}
