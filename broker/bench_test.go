package broker

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark/tidemark/bench"
	"github.com/tidemark/tidemark/internal/config"
)

// BenchmarkCell runs the cells of package bench against a broker in this
// process, for profiles: client and broker share it, so the times are not those
// of docs/BENCHMARKS.md. One operation is one request.
func BenchmarkCell(b *testing.B) {
	for _, cell := range bench.Cells() {
		b.Run(cell.Name, func(b *testing.B) {
			settings, _, _, err := config.Load(config.Sources{Flags: []string{"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=" + b.TempDir()}})
			if err != nil {
				b.Fatal(err)
			}
			br, err := New(Config{Settings: settings})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := br.Start(ctx); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			var requests int64
			for range b.N {
				r, err := cell.Run(bench.Target{Addr: br.Addr()}, 1)
				if err != nil {
					b.Fatal(err)
				}
				requests += r.Requests
			}
			b.StopTimer()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(requests), "ns/req")
			if err := br.Stop(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}
