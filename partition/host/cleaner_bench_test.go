package host

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/protocol/record"
)

// BenchmarkCompaction cleans a log of a million keys with two records of 100 bytes
// each, in batches of 100: what the cleaner does from choosing the partition to
// noting how far it came. The CPU is the process's; nothing else runs.
func BenchmarkCompaction(b *testing.B) {
	for _, codec := range []record.Codec{0, 3} {
		b.Run(fmt.Sprint("codec ", codec), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				benchCompaction(b, codec)
			}
		})
	}
}

func benchCompaction(b *testing.B, codec record.Codec) {
	const keys, perBatch = 1_000_000, 100
	cfg := config.Defaults()
	cfg.Storage.Cleaner.Backoff = time.Hour
	h := onDiskAs(b, map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.bytes": "16777216"}, cfg, osfs.New())
	w := &counted{}
	builder := record.NewBuilder(record.Options{Codec: codec})
	rules := record.DefaultRules(1_700_000_000_000)
	value := make([]byte, 100)
	n := 0
	// The second time the keys come in another order, so that most batches keep
	// some of their records.
	for _, step := range []int{1, 7919} {
		for k := 0; k < keys; k += perBatch {
			builder.Reset(record.Options{Codec: codec})
			for i := range perBatch {
				key := (k + i) * step % keys
				copy(value, fmt.Sprintf("%d.%d", key, n))
				builder.Append(1_700_000_000_000, fmt.Appendf(nil, "key-%012d", key), value)
			}
			prepared, reject := record.Validate(builder.Build(), &rules)
			if reject != nil {
				b.Fatal(reject)
			}
			h.Produce(ProduceMsg{Prepared: prepared, Acks: 1, Deadline: model.Never, Waiter: w})
			n++
		}
	}
	s := h.State()
	active := s.View.Segments()[len(s.View.Segments())-1].Base
	for h.State().RecoveryPoint < active {
		h.box.Enter(&flushOldMsg{})
		runtime.Gosched()
	}
	size := h.State().View.Size()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := cpuTime(b)
	b.StartTimer()
	cl := h.m.cleaner.next()
	if cl == nil {
		b.Fatal("nothing to clean")
	}
	cl.work()
	b.StopTimer()
	cpu = cpuTime(b) - cpu
	runtime.ReadMemStats(&after)
	if cl.err != nil {
		b.Fatal(cl.err)
	}
	st := h.m.CleanerStats()
	b.ReportMetric(float64(size)/1e6/cpu.Seconds(), "MB/cpu-s")
	b.ReportMetric(float64(st.RecordsDropped), "dropped")
	b.ReportMetric(float64(cl.offsets.Len()), "keys")
	b.ReportMetric(float64(cl.offsets.Bytes())/1e6, "map-MB")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1e6, "alloc-MB")
	b.ReportMetric(float64(size)/1e6, "log-MB")
}

// cpuTime is what the process has used, user and system.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
