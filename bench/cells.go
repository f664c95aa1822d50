package bench

import (
	"fmt"
	"strings"
	"time"
)

// Target is a broker to measure.
type Target struct {
	Addr string // HOST:PORT of a plaintext listener
	PID  int    // the broker's process; zero measures no CPU and memory
	Echo bool   // no broker but what answers every frame alike; only produce cells run against it
}

// Cell is one measurement: a named load with a fixed amount of work.
type Cell struct {
	Name string // short, stable: T1-produce-1MiB …
	Why  string // what it shows
	run  func(e *env) error
}

// Floor says whether the cell can run against a Target that only echoes: then
// its figures there are those that no broker can undercut on this machine.
func (c Cell) Floor() bool { return strings.HasPrefix(c.Name, "T3-produce-") }

// Run does the cell's work once against t, in a topic of its own that is
// deleted afterwards. scale multiplies the amount of work; 1 is about a second
// or two on a small machine.
func (c Cell) Run(t Target, scale float64) (Result, error) {
	e := &env{target: t, scale: scale, result: Result{Cell: c.Name}}
	defer e.close()
	if err := c.run(e); err != nil {
		return Result{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	e.lat.fill(&e.result)
	return e.result, nil
}

// synced has a topic written to the disk before a produce is answered.
var synced = []string{"flush.messages", "1"}

// Cells returns the cells in the order they are run.
func Cells() []Cell {
	return []Cell{
		{"T1-produce-1MiB-d4", "byte path in", produceCell(produceLoad{batch: 1 << 20, record: 1 << 10, depth: 4, conns: 1, requests: 512})},
		{"T2-produce-64KiB-d4", "mid-sized batches", produceCell(produceLoad{batch: 64 << 10, record: 1 << 10, depth: 4, conns: 1, requests: 6000})},
		{"T2-produce-16KiB-d4", "Kafka's default batch.size", produceCell(produceLoad{batch: 16 << 10, record: 1 << 10, depth: 4, conns: 1, requests: 15000})},
		{"T3-produce-100B-d1", "request path, one at a time", produceCell(produceLoad{batch: 172, record: 100, depth: 1, conns: 1, requests: 15000})},
		{"T3-produce-100B-d16", "request path, pipelined", produceCell(produceLoad{batch: 172, record: 100, depth: 16, conns: 1, requests: 100000})},
		{"T3-produce-100B-d64", "request path, pipelined deep", produceCell(produceLoad{batch: 172, record: 100, depth: 64, conns: 1, requests: 150000})},
		{"T3-produce-100B-16conns", "many connections", produceCell(produceLoad{batch: 172, record: 100, depth: 1, conns: 16, requests: 50000})},
		{"T3-produce-100B-64conns", "more connections", produceCell(produceLoad{batch: 172, record: 100, depth: 1, conns: 64, requests: 60000})},
		{"T4-fetch-1MiB", "byte path out", fetchCell(fetchLoad{partitions: 1, batch: 1 << 20, batches: 128, conns: 1, requests: 2048})},
		{"T4-fetch-1MiB-4conns", "fan-out of one partition", fetchCell(fetchLoad{partitions: 1, batch: 1 << 20, batches: 128, conns: 4, requests: 2048})},
		{"T5-fetch-1000x1KiB", "many partitions in one answer", fetchCell(fetchLoad{partitions: 1000, batch: 1 << 10, batches: 1, conns: 1, requests: 800})},
		{"T5-fetch-100x1KiB", "a hundred partitions", fetchCell(fetchLoad{partitions: 100, batch: 1 << 10, batches: 1, conns: 1, requests: 6000})},
		{"T5-session-1000p-1changes", "incremental fetch session", sessionCell(1000, 4000)},
		{"T6-kgo-produce-100B", "franz-go, idempotent, acks=all", kgoProduceCell(100, 1_000_000)},
		{"T6-kgo-produce-1KiB", "franz-go, idempotent, acks=all", kgoProduceCell(1024, 300_000)},
		{"T6-kgo-consume-100B", "franz-go", kgoConsumeCell(100, 1_000_000)},
		{"T6-kgo-consume-1KiB", "franz-go", kgoConsumeCell(1024, 300_000)},
		{"T8-tail", "produce to a parked fetch's answer", tailCell(6000)},
		{"F1-flush-16conns", "on the disk before each answer", produceCell(produceLoad{batch: 16 << 10, record: 1 << 10, depth: 1, conns: 16, requests: 8000, settings: synced})},
		{"F2-flush-64conns", "the same, more that can share a sync", produceCell(produceLoad{batch: 16 << 10, record: 1 << 10, depth: 1, conns: 64, requests: 16000, settings: synced})},
		{"F3-flush-d16", "the same, pipelined on one connection", produceCell(produceLoad{batch: 16 << 10, record: 1 << 10, depth: 16, conns: 1, requests: 8000, settings: synced})},
		{"G1-join-classic", "100 members come to one group", joinCell(100)},
		{"G1-join-consumer", "the same, the broker assigns (KIP-848)", consumerJoinCell(100)},
		{"G2-heartbeats", "1000 groups of one member, a heartbeat a second each", beatCell(1000, 15*time.Second)},
		{"G3-commits", "10,000 commits a second of 50 groups", commitCell(50, 100_000)},
		{"G5-compaction", "a million keys, two records each", compactionCell(1_000_000)},
	}
}

// measure runs work and books what the broker and this process used for it.
func (e *env) measure(work func() error) error {
	before, err := e.usage()
	if err != nil {
		return err
	}
	self, err := ReadUsage(selfPID())
	if err != nil {
		return err
	}
	start := time.Now()
	if err := work(); err != nil {
		return err
	}
	e.result.Elapsed = time.Since(start)
	after, err := e.usage()
	if err != nil {
		return err
	}
	selfAfter, err := ReadUsage(selfPID())
	if err != nil {
		return err
	}
	e.result.Broker = after.Sub(before)
	e.result.Client = selfAfter.CPU - self.CPU
	return nil
}

func (e *env) usage() (Usage, error) {
	if e.target.PID == 0 {
		return Usage{}, nil
	}
	return ReadUsage(e.target.PID)
}
