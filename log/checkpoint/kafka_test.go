package checkpoint_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/log/checkpoint"
)

// kafkaDirs holds log directories that Apache Kafka 4.3.1 has written.
const kafkaDirs = "../../compat/golden/logdir"

// TestFilesOfKafka reads every text file of Kafka's own directories and writes
// it again: the same bytes, but for the order of partitions and the date.
func TestFilesOfKafka(t *testing.T) {
	seen := map[string]int{}
	err := filepath.WalkDir(kafkaDirs, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		kind, ok := map[string]byte{
			checkpoint.RecoveryPointFile: 0, checkpoint.LogStartFile: 0,
			checkpoint.HighWatermarkFile: 0, checkpoint.CleanerFile: 0,
			checkpoint.EpochFile: 1, checkpoint.PartitionMetadataFile: 2,
			checkpoint.CleanShutdownFile: 3, checkpoint.MetaPropertiesFile: 4,
		}[d.Name()]
		if !ok || len(text) == 0 { // Kafka makes some of them before it has anything to say
			return nil
		}
		seen[d.Name()]++
		again, err := recode(kind, text)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		if d.Name() == checkpoint.MetaPropertiesFile || kind == 0 {
			text, again = sortedLines(text), sortedLines(again)
		}
		if !bytes.Equal(text, again) {
			t.Errorf("%s:\nKafka %q\nours  %q", path, text, again)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 8 {
		t.Errorf("only %v were there to read", seen)
	}
}

// sortedLines drops comments and sorts the rest.
func sortedLines(text []byte) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") })
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}
