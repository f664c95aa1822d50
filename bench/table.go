package bench

import (
	"fmt"
	"io"
	"time"
)

// WriteTable prints results as a Markdown table, a row a result.
func WriteTable(w io.Writer, rs []Result) error {
	if _, err := fmt.Fprint(w, "| cell | MB/s | req/s | broker cpu-s/GB | broker µs/req (user+sys) | client cpu s | RSS MiB (peak) | p50 | p99 |\n|---|---|---|---|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for _, r := range rs {
		_, err := fmt.Fprintf(w, "| %s | %.0f | %.0f | %.2f | %.1f (%.1f+%.1f) | %.2f | %.0f (%.0f) | %s | %s |\n",
			r.Cell, r.BytesPerSecond()/1e6, r.RequestsPerSecond(), r.CPUPerGB(), micros(r.CPUPerRequest()),
			perRequest(r.Broker.User, r), perRequest(r.Broker.Sys, r), r.Client.Seconds(),
			mib(r.Broker.RSS), mib(r.Broker.PeakRSS), short(r.P50), short(r.P99))
		if err != nil {
			return err
		}
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func perRequest(d time.Duration, r Result) float64 {
	if r.Requests == 0 {
		return 0
	}
	return micros(d) / float64(r.Requests)
}

// short rounds a latency to three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(100 * time.Nanosecond).String()
	}
}
