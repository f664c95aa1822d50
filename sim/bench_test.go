package sim

import (
	"fmt"
	"testing"
)

// BenchmarkSeed runs one seed after another, as a long run does: with the
// brokers that the seed draws, and with three.
func BenchmarkSeed(b *testing.B) {
	for _, nodes := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			var events uint64
			for i := range b.N {
				r := Run(Options{Seed: uint64(i%16 + 1), Nodes: nodes}, nil)
				if r.Failure != nil {
					b.Fatal(r.Failure)
				}
				events += r.Events
			}
			b.ReportMetric(float64(events)/float64(b.N), "events/op")
		})
	}
}
