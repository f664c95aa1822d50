package log_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/protocol/record"
)

// BenchmarkScrub verifies a sealed segment of 128 MiB: from the page cache, and from
// the disk, where what was read is let go of again.
func BenchmarkScrub(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		l := openDisk(b)
		batch := batchOf(size)
		for l.View().Size() < 128<<20 {
			record.Stamp(batch, l.LogEnd(), 1)
			if _, err := l.Append(model.Now{Wall: 1000}, batch); err != nil {
				b.Fatal(err)
			}
		}
		if err := l.Roll(model.Now{Wall: 1000}); err != nil {
			b.Fatal(err)
		}
		job := l.StartFlush()
		if err := l.FinishFlush(job, job.Run()); err != nil {
			b.Fatal(err)
		}
		for _, cold := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKiB/cold=%v", size>>10, cold), func(b *testing.B) { benchScrub(b, l, cold) })
		}
	}
}

func benchScrub(b *testing.B, l *log.Log, cold bool) {
	o := log.Scrubbing{Epochs: l.Epochs().Clone(), Newest: model.NoEpoch, Buf: make([]byte, 256<<10)}
	o.Spend = func(int) error { return nil }
	b.SetBytes(l.View().Segments()[0].Size)
	for b.Loop() {
		if cold {
			b.StopTimer()
			letGo(b, fmt.Sprintf("%s/%020d.log", l.Dir(), 0))
			b.StartTimer()
		}
		if got, err := l.View().Scrub(0, o); err != nil || got.Unvouched || len(got.Wrong) > 0 {
			b.Fatal(got, err)
		}
	}
}

// letGo takes a file out of the page cache.
func letGo(b *testing.B, path string) {
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := dontNeed(f); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkHeadSum is what an append pays for a batch.
func BenchmarkHeadSum(b *testing.B) {
	batch := batchOf(1 << 10)
	for b.Loop() {
		log.AddHead(batch)
	}
}
