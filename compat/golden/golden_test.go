package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/compat/golden"
)

func TestListsParse(t *testing.T) {
	if n := len(golden.APIs()); n < 60 {
		t.Errorf("%d APIs", n)
	}
	if n := len(golden.BrokerConfigs()); n < 300 {
		t.Errorf("%d broker settings", n)
	}
	if n := len(golden.TopicConfigs()); n < 30 {
		t.Errorf("%d topic settings", n)
	}
	if n := len(golden.Features()); n < 5 {
		t.Errorf("%d features", n)
	}
}

// The fixtures must hold what the tests that use them count on; a tool that
// ignored *.log files would take the segments away without a word.
func TestLogDirsAreWhole(t *testing.T) {
	for _, name := range []string{"clean", "killed"} {
		all, err := golden.Partitions(name)
		if err != nil {
			t.Fatal(err)
		}
		codecs := map[string]bool{}
		var control, aborted, nullKeys, headers, segments int
		for _, p := range all {
			dir := filepath.Join(golden.Dir(name), fmt.Sprintf("%s-%d", p.Topic, p.Partition))
			logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
			if err != nil || len(logs) == 0 {
				t.Errorf("%s holds no segment (%v)", dir, err)
			}
			segments += len(logs)
			for _, r := range p.Records {
				codecs[r.Codec] = true
				control += count(r.Control)
				aborted += count(r.Aborted)
				nullKeys += count(r.Key == nil)
				headers += len(r.Headers)
			}
			if !slices.IsSortedFunc(p.Records, func(a, b golden.Record) int { return int(a.Offset - b.Offset) }) {
				t.Errorf("%s: offsets out of order", dir)
			}
		}
		if len(codecs) != 5 || control == 0 || aborted == 0 || nullKeys == 0 || headers == 0 || segments < 2*len(all) {
			t.Errorf("%s: codecs %v, %d control records, %d aborted, %d null keys, %d headers, %d segments in %d partitions",
				name, codecs, control, aborted, nullKeys, headers, segments, len(all))
		}
	}
	if _, err := os.Stat(filepath.Join(golden.Dir("clean"), ".kafka_cleanshutdown")); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(golden.Dir("killed"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".kafka") {
			t.Errorf("killed holds %s", e.Name())
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
