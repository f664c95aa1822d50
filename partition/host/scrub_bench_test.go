package host

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/protocol/record"
)

// BenchmarkScrubPace has the scrubber verify 128 MiB at its default pace, and tells
// which part of a core the process took. Nothing else runs.
func BenchmarkScrubPace(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			cfg := config.Defaults()
			cfg.Own.Scrub.Period = time.Second // again and again
			h := onDiskAs(b, map[string]string{"segment.bytes": "33554432"}, cfg, osfs.New())
			builder := record.NewBuilder(record.Options{})
			builder.Append(1_700_000_000_000, nil, make([]byte, size))
			batch := builder.Build()
			rules := record.DefaultRules(1_700_000_000_000)
			for h.State().View.Size() < 160<<20 {
				prepared, reject := record.Validate(append(record.Batch(nil), batch...), &rules)
				if reject != nil {
					b.Fatal(reject)
				}
				h.Produce(ProduceMsg{Prepared: prepared, Acks: 1, Deadline: model.Never, Waiter: &counted{}})
			}
			for b.Loop() {
				began, cpu, was := time.Now(), cpuTime(b), h.m.ScrubStats().Bytes
				for h.m.ScrubStats().Bytes-was < 128<<20 && time.Since(began) < 20*time.Second {
					waitABit()
				}
				took := time.Since(began)
				b.ReportMetric(100*(cpuTime(b)-cpu).Seconds()/took.Seconds(), "%core")
				b.ReportMetric(float64(h.m.ScrubStats().Bytes-was)/took.Seconds()/(1<<20), "MiB/s")
			}
		})
	}
}

// waitABit lets time pass on this goroutine.
func waitABit() { <-time.After(20 * time.Millisecond) }
