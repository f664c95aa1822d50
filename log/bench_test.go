package log_test

import (
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/record"
)

// batchOf returns a batch of about size bytes in records of 100 bytes.
func batchOf(size int) record.Batch {
	return logtest.Batch(logtest.Spec{Records: max(1, size/110), ValueSize: 100, Timestamp: 1000})
}

func openDisk(b testing.TB) *log.Log {
	l, _, err := log.Open(log.Options{
		FS: osfs.New(), Dir: b.TempDir(), Stop: log.StopClean,
		Config: log.Config{SegmentBytes: 256 << 20, IndexIntervalBytes: 4096, PreallocateBytes: 16 << 20},
	})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			l := openDisk(b)
			batch := batchOf(size)
			records := model.Offset(batch.Count())
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				record.Stamp(batch, l.LogEnd(), 1)
				if _, err := l.Append(model.Now{Wall: 1000}, batch); err != nil {
					b.Fatal(err)
				}
				if l.View().Size() > 1<<30 {
					b.StopTimer()
					if err := l.IncrementLogStart(l.LogEnd()); err != nil {
						b.Fatal(err)
					}
					if _, _, err := l.DropBelow(); err != nil {
						b.Fatal(err)
					}
					if _, err := l.Reclaim(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(records), "records/op")
		})
	}
}

// readLog is 64 MiB of batches of 16 KiB.
func readLog(b testing.TB) *log.Log {
	l := openDisk(b)
	batch := batchOf(16 << 10)
	for l.View().Size() < 64<<20 {
		record.Stamp(batch, l.LogEnd(), 1)
		if _, err := l.Append(model.Now{Wall: 1000}, batch); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

// Reading the batch that was just appended, as followers and most consumers do.
func BenchmarkReadTail(b *testing.B) {
	l := readLog(b)
	v := l.View()
	from := v.End() - model.Offset(batchOf(16<<10).Count())
	b.ReportAllocs()
	for b.Loop() {
		r, err := v.Read(from, v.End(), 1<<20, true)
		if err != nil || r.Len() == 0 {
			b.Fatal(r.Len(), err)
		}
		r.Release()
	}
}

// A consumer that catches up, 1 MiB at a time, without the copying.
func BenchmarkReadSequential(b *testing.B) {
	l := readLog(b)
	v := l.View()
	per := model.Offset(batchOf(16 << 10).Count())
	from := model.Offset(0)
	b.ReportAllocs()
	for b.Loop() {
		r, err := v.Read(from, v.End(), 1<<20, true)
		if err != nil || r.Len() == 0 {
			b.Fatal(r.Len(), err)
		}
		from = (from + 60*per) % (v.End() - per)
		r.Release()
	}
}

// Recovery of a log that was killed: every batch's CRC.
func BenchmarkRecover(b *testing.B) {
	l := readLog(b)
	o := log.Options{FS: osfs.New(), Dir: l.Dir(), Stop: log.StopPower, Config: log.Config{SegmentBytes: 256 << 20, IndexIntervalBytes: 4096}}
	b.SetBytes(l.View().Size())
	for b.Loop() {
		r, _, err := log.Open(o)
		if err != nil || r.LogEnd() != l.LogEnd() {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := r.Close(false); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// The hot paths allocate nothing per record; an append makes one View.
func TestHotPathAllocations(t *testing.T) {
	l := openDisk(t)
	batch := batchOf(16 << 10)
	appends := testing.AllocsPerRun(200, func() {
		record.Stamp(batch, l.LogEnd(), 1)
		if _, err := l.Append(model.Now{Wall: 1000}, batch); err != nil {
			t.Fatal(err)
		}
	})
	if appends > 2 {
		t.Errorf("%v allocations per append of %d records", appends, batch.Count())
	}
	v := l.View()
	for name, from := range map[string]model.Offset{"tail": v.End() - 1, "old": v.End() / 3} { // order-free
		reads := testing.AllocsPerRun(200, func() {
			r, err := v.Read(from, v.End(), 1<<20, true)
			if err != nil || r.Len() == 0 {
				t.Fatal(err)
			}
			r.Release()
		})
		if reads > 0 {
			t.Errorf("%v allocations per read, %s", reads, name)
		}
	}
}
