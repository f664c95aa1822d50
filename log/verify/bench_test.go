package verify_test

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/log/verify"
)

// BenchmarkPartition reads 256 MiB of batches of 16 KiB, from the page cache.
func BenchmarkPartition(b *testing.B) {
	fs, dir := osfs.New(), b.TempDir()+"/t-0"
	l, _, err := log.Open(log.Options{FS: fs, Dir: dir, Config: log.Config{SegmentBytes: 64 << 20}})
	if err != nil {
		b.Fatal(err)
	}
	const total = 256 << 20
	for l.View().Size() < total {
		batch := logtest.Batch(logtest.Spec{Base: l.LogEnd(), Records: 16, ValueSize: 1000})
		if _, err := l.Append(model.Now{}, batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(true); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(total)
	for b.Loop() {
		r, err := verify.Partition(fs, dir, false)
		if err != nil || r.Worst() != verify.Note {
			b.Fatalf("%v: %v", err, r.Findings)
		}
	}
}
