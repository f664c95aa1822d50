package producer

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// kafkaDirs holds log directories that Apache Kafka 4.3.1 has written.
const kafkaDirs = "../../compat/golden/logdir"

// TestLogsOfKafka replays the segments of Kafka's own directories. Wherever
// Kafka has left a snapshot, its entries are ours at that offset, field by
// field; every entry of its transaction indexes is a transaction that we see
// aborted. Ours may know more: Kafka had restarted in between and dropped
// producers that were expired by then.
func TestLogsOfKafka(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(kafkaDirs, "*", "*-*"))
	if err != nil {
		t.Fatal(err)
	}
	snapshots, entries, aborted := 0, 0, 0
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		r := replayDir(t, dir)
		snapshots += r.snapshots
		entries += r.entries
		aborted += r.aborted
	}
	if snapshots < 40 || entries < 40 || aborted < 5 {
		t.Errorf("only %d snapshots, %d entries and %d aborted transactions were there to compare",
			snapshots, entries, aborted)
	}
}

type replayed struct{ snapshots, entries, aborted int }

func replayDir(t *testing.T, dir string) (r replayed) {
	t.Helper()
	segments, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	slices.Sort(segments)
	m := New()
	var done []CompletedTxn
	r.check(t, dir, m)
	for _, path := range segments {
		set, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		it := record.NewIter(set)
		for it.Next() {
			b := it.Batch()
			if txn, ok := m.Update(b); ok && txn.Aborted {
				done = append(done, txn)
			}
			r.check(t, dir, m)
		}
		if it.Err() != nil {
			t.Fatalf("%s: %v", path, it.Err())
		}
	}
	indexes, _ := filepath.Glob(filepath.Join(dir, "*.txnindex"))
	for _, path := range indexes {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(b) >= 34; b = b[34:] {
			be := binary.BigEndian
			want := CompletedTxn{
				ProducerID:       model.ProducerID(be.Uint64(b[2:])),
				FirstOffset:      model.Offset(be.Uint64(b[10:])),
				LastOffset:       model.Offset(be.Uint64(b[18:])),
				LastStableOffset: model.Offset(be.Uint64(b[26:])),
				Aborted:          true,
			}
			if !slices.Contains(done, want) {
				t.Errorf("%s: %+v is none of ours: %+v", path, want, done)
			}
			r.aborted++
		}
	}
	return r
}

// check compares m with the snapshot that Kafka left at this offset, if any.
func (r *replayed) check(t *testing.T, dir string, m *StateManager) {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("%020d.snapshot", m.MapEnd()))
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	list, err := ReadSnapshot(b)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	r.snapshots++
	for i := range list {
		r.entries++
		got, ok := m.Lookup(list[i].ProducerID)
		if strings.Contains(dir, "compacted") && got.LastTimestamp < list[i].LastTimestamp {
			got.LastTimestamp = list[i].LastTimestamp // compaction has taken the record with the greatest
		}
		if !ok || summary(&got) != summary(&list[i]) {
			t.Errorf("%s:\nKafka %s\nours  %s", path, summary(&list[i]), summary(&got))
		}
	}
	back := New()
	if err := back.Unmarshal(b); err != nil {
		t.Error(err)
	}
	if again := back.Marshal(nil); len(again) != len(b) {
		t.Errorf("%s: %d bytes became %d", path, len(b), len(again))
	}
}

// summary is what a snapshot keeps of an entry.
func summary(e *Entry) string {
	s := fmt.Sprintf("producer %d epoch %d coordinator %d txn %d at %d last",
		e.ProducerID, e.Epoch, e.CoordinatorEpoch, e.TxnFirstOffset, e.LastTimestamp)
	if n := len(e.Batches()); n > 0 {
		last := e.Batches()[n-1]
		return s + fmt.Sprintf(" %d-%d at %d-%d", last.FirstSeq, last.LastSeq, last.FirstOffset(), last.LastOffset)
	}
	return s + strconv.Itoa(-1)
}
