package bench

import (
	"slices"
	"time"
)

// Result is one run of one cell against one broker.
type Result struct {
	Cell     string
	Requests int64
	Records  int64
	Bytes    int64 // payload: record batch bytes sent or received
	Elapsed  time.Duration
	Broker   Usage // of the broker process during the run; zero without a pid
	Client   time.Duration
	P50      time.Duration
	P99      time.Duration
	P999     time.Duration
}

// BytesPerSecond returns payload bytes a second.
func (r Result) BytesPerSecond() float64 { return float64(r.Bytes) / r.Elapsed.Seconds() }

// RequestsPerSecond returns answered requests a second.
func (r Result) RequestsPerSecond() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// CPUPerGB returns broker CPU seconds for 10^9 payload bytes.
func (r Result) CPUPerGB() float64 {
	if r.Bytes == 0 {
		return 0
	}
	return r.Broker.CPU.Seconds() / (float64(r.Bytes) / 1e9)
}

// CPUPerRequest returns broker CPU for one request.
func (r Result) CPUPerRequest() time.Duration {
	if r.Requests == 0 {
		return 0
	}
	return r.Broker.CPU / time.Duration(r.Requests)
}

// latencies collects the durations of requests; add may be called by one
// goroutine at a time.
type latencies struct{ d []time.Duration }

func (l *latencies) add(d time.Duration) { l.d = append(l.d, d) }

// fill sorts what was collected into r's percentiles.
func (l *latencies) fill(r *Result) {
	if len(l.d) == 0 {
		return
	}
	slices.Sort(l.d)
	r.P50, r.P99, r.P999 = l.at(0.50), l.at(0.99), l.at(0.999)
}

func (l *latencies) at(q float64) time.Duration {
	return l.d[min(len(l.d)-1, int(q*float64(len(l.d))))]
}

// Median returns, field by field, the median of several runs of one cell.
func Median(rs []Result) Result {
	m := Result{Cell: rs[0].Cell}
	m.Requests = medianOf(rs, func(r Result) int64 { return r.Requests })
	m.Records = medianOf(rs, func(r Result) int64 { return r.Records })
	m.Bytes = medianOf(rs, func(r Result) int64 { return r.Bytes })
	m.Elapsed = medianOf(rs, func(r Result) time.Duration { return r.Elapsed })
	m.Client = medianOf(rs, func(r Result) time.Duration { return r.Client })
	m.P50 = medianOf(rs, func(r Result) time.Duration { return r.P50 })
	m.P99 = medianOf(rs, func(r Result) time.Duration { return r.P99 })
	m.P999 = medianOf(rs, func(r Result) time.Duration { return r.P999 })
	m.Broker.CPU = medianOf(rs, func(r Result) time.Duration { return r.Broker.CPU })
	m.Broker.User = medianOf(rs, func(r Result) time.Duration { return r.Broker.User })
	m.Broker.Sys = medianOf(rs, func(r Result) time.Duration { return r.Broker.Sys })
	m.Broker.RSS = medianOf(rs, func(r Result) int64 { return r.Broker.RSS })
	m.Broker.PeakRSS = medianOf(rs, func(r Result) int64 { return r.Broker.PeakRSS })
	return m
}

func medianOf[T int64 | time.Duration](rs []Result, f func(Result) T) T {
	vs := make([]T, len(rs))
	for i, r := range rs {
		vs[i] = f(r)
	}
	slices.Sort(vs)
	return vs[len(vs)/2]
}
