package sim

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Where a log was cut within a batch it goes on in a new file, above the end of
// the last batch that was left; nowhere else may it.
func TestScanPassesASeam(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	w.o.batchMax = 6
	tp := model.TopicPartition{Topic: "d0", Partition: 1}
	r := &replica{m: w.machines[0], tp: tp}
	put := func(base int64, batches ...[]byte) {
		var file []byte
		for _, b := range batches {
			file = append(file, b...)
		}
		if err := errors.Join(r.m.disk.MkdirAll(partDir(tp), 0o755),
			vfs.WriteFileAtomic(r.m.disk, fmt.Sprintf("%s/%020d.log", partDir(tp), base), file)); err != nil {
			t.Fatal(err)
		}
	}
	batch := func(base byte, n int) []byte {
		var recs []outRecord
		for i := range n {
			recs = append(recs, outRecord{id: uint64(base) + uint64(i), ts: 5})
		}
		b := appendBatch(nil, recs, -1, -1, -1)
		b[7] = base
		return b
	}
	put(0, batch(0, 2), batch(2, 1))
	put(5, batch(5, 3))
	end := func() int64 {
		end, _ := r.scan(r.m.disk, 0, func(*fileBatch) error { return nil })
		return end
	}
	if got := end(); got != 3 {
		t.Errorf("without a cut the log ends at %d, want 3", got)
	}
	r.seams = []int64{4}
	if got := end(); got != 3 {
		t.Errorf("cut elsewhere, it ends at %d, want 3", got)
	}
	r.seams = []int64{5}
	if got := end(); got != 8 {
		t.Errorf("cut at 5, it ends at %d, want 8", got)
	}
	w.o.batchMax = 2
	if got := end(); got != 3 {
		t.Errorf("a seam wider than any batch: it ends at %d, want 3", got)
	}
}
