package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tidemark/tidemark/bench"
)

// target is a figure that Tidemark is to reach as a ratio to Apache Kafka's of
// the same run.
type target struct {
	what, cell string
	atMost     float64
	figure     func(r bench.Result) float64
	unit       string
	// floor: the least that any broker can show on this machine counts, as the
	// echo process shows it: what is above it is compared.
	floor bool
	// raw, if set, is a cell of the same work without a broker: rawAtMost times its
	// figure is enough too.
	raw       string
	rawAtMost float64
}

func cpuSeconds(r bench.Result) float64    { return r.Broker.CPU.Seconds() }
func cpuPercent(r bench.Result) float64    { return 100 * r.Broker.CPU.Seconds() / r.Elapsed.Seconds() }
func seconds(r bench.Result) float64       { return r.Elapsed.Seconds() }
func resident(r bench.Result) float64      { return float64(r.Broker.RSS) / (1 << 20) }
func cpuPerGB(r bench.Result) float64      { return r.CPUPerGB() }
func cpuPerRequest(r bench.Result) float64 { return float64(r.CPUPerRequest()) / 1e3 }
func p99(r bench.Result) float64           { return float64(r.P99) / 1e3 }

// targets are checked by every run that has the cells.
var targets = [...]target{
	{"produce CPU per GB, 1 MiB batches", "T1-produce-1MiB-d4", 1. / 2, cpuPerGB, "s/GB", false, "", 0},
	{"CPU per 16 KiB produce request", "T2-produce-16KiB-d4", 1. / 3, cpuPerRequest, "µs", false, "", 0},
	{"CPU per pipelined 100 B request, depth 16", "T3-produce-100B-d16", 1. / 5, cpuPerRequest, "µs", false, "", 0},
	{"CPU per pipelined 100 B request, depth 64", "T3-produce-100B-d64", 1. / 5, cpuPerRequest, "µs", false, "", 0},
	{"fetch CPU per GB, 1 MiB", "T4-fetch-1MiB", 1, cpuPerGB, "s/GB", false, "", 0},
	{"fetch CPU per GB, 1 MiB, four connections", "T4-fetch-1MiB-4conns", 1, cpuPerGB, "s/GB", false, "", 0},
	{"CPU per fetch of 1000 × 1 KiB", "T5-fetch-1000x1KiB", 1. / 3, cpuPerRequest, "µs", false, "", 0},
	{"produce p99 at acks=1, 16 KiB, depth 4", "T2-produce-16KiB-d4", 1. / 5, p99, "µs", false, "", 0},
	{"produce p99 at acks=1, 100 B, one at a time", "T3-produce-100B-d1", 1. / 5, p99, "µs", true, "", 0},
	{"produce p99 at acks=1, 100 B, 16 connections", "T3-produce-100B-16conns", 1. / 5, p99, "µs", true, "", 0},
	{"CPU of 99 members joining a classic group, one every 10 ms", "G1-join-classic", 1. / 2, cpuSeconds, "s", false, "", 0},
	{"time until they are in one generation", "G1-join-classic", 1, seconds, "s", false, "", 0},
	{"CPU of 100 members joining a consumer group, one every 10 ms", "G1-join-consumer", 1. / 2, cpuSeconds, "s", false, "", 0},
	{"time until each has its partition", "G1-join-consumer", 1, seconds, "s", false, "", 0},
	{"1000 groups of one member, a heartbeat a second each: CPU", "G2-heartbeats", 1. / 2, cpuPercent, "% of a core", false, "", 0},
	{"CPU per commit at 10,000 a second", "G3-commits", 1. / 2, cpuPerRequest, "µs", false, "", 0},
	{"start with 1,000,000 committed offsets until they are served: CPU", loadCell, 1. / 2, cpuSeconds, "s", false, "", 0},
	{"the same: time", loadCell, 1. / 2, seconds, "s", false, "", 0},
	{"the same, without what a start costs that has none: CPU", loadOnlyCell, 1. / 2, cpuSeconds, "s", false, "", 0},
	{"the same: memory", loadCell, 1, resident, "MiB", false, "", 0},
	{"compaction, 1,000,000 keys: CPU per GB of log", "G5-compaction", 1. / 2, cpuPerGB, "s/GB", false, "", 0},
	{"the same: memory afterwards", "G5-compaction", 1, resident, "MiB", false, "", 0},
	{"flush.messages=1, 16 producers of 16 KiB: CPU per request", "F1-flush-16conns", 0.45, cpuPerRequest, "µs", false, "", 0},
	{"the same: time", "F1-flush-16conns", 1 / 1.5, seconds, "s", false, "", 0},
	{"flush.messages=1, 64 producers of 16 KiB: time", "F2-flush-64conns", 1. / 3, seconds, "s", false, "", 0},
	{"flush.messages=1, 16 KiB, one connection, depth 16: time", "F3-flush-d16", 1. / 3, seconds, "s", false, "", 0},
	{"10 GB after kill -9, until all is served", killedCell, 1. / 8, seconds, "s", false, "", 0},
	{"10 GB all of which must be checked, in the page cache", hotCell, 1. / 8, seconds, "s", false, "", 0},
	{"10 GB all of which must be checked, from the disk", coldCell, 1. / 8, seconds, "s", false, rawCell, 1.3},
	{"start with 10,000 clean partitions, until all answer", cleanCell, 1. / 30, seconds, "s", false, "", 0},
}

// printTargets writes what was to be reached and what was.
func (r *report) printTargets(w io.Writer) {
	median := func(cell, broker string) (bench.Result, bool) {
		rounds := r.Results[cell][broker]
		if len(rounds) == 0 {
			return bench.Result{}, false
		}
		return bench.Median(rounds), true
	}
	fmt.Fprint(w, "| figure | target | Tidemark | Apache Kafka | ratio | echo process | |\n|---|---|---|---|---|---|---|\n")
	for _, t := range targets {
		ours, ok := median(t.cell, "tidemark")
		theirs, okToo := median(t.cell, "kafka")
		if !ok || !okToo {
			continue
		}
		a, b := t.figure(ours), t.figure(theirs)
		floor, verdict := "", "met"
		if e, ok := median(t.cell, "echo"); ok && t.floor {
			floor = fmt.Sprintf("%.3g %s", t.figure(e), t.unit)
			if least := t.figure(e) / b; least > t.atMost && a > t.atMost*b {
				verdict = fmt.Sprintf("the echo process itself is at %.2f", least)
			} else if a > t.atMost*b {
				verdict = "**missed**"
			}
		} else if raw, ok := median(t.raw, "tidemark"); ok && a <= t.rawAtMost*t.figure(raw) {
			verdict = fmt.Sprintf("met: %.2f of reading the files, ≤ %.3g", a/t.figure(raw), t.rawAtMost)
		} else if a > t.atMost*b {
			verdict = "**missed**"
		}
		fmt.Fprintf(w, "| %s (`%s`) | ≤ %.3g | %.3g %s | %.3g %s | %.3f | %s | %s |\n",
			t.what, t.cell, t.atMost, a, t.unit, b, t.unit, a/b, floor, verdict)
	}
	r.printStartTargets(w)
	fmt.Fprintln(w)
}

func (r *report) printStartTargets(w io.Writer) {
	if len(r.Starts["tidemark"]) == 0 || len(r.Starts["kafka"]) == 0 {
		return
	}
	took := func(name string) time.Duration {
		return median(r.Starts[name], func(s startup) time.Duration { return s.Took })
	}
	rss := func(name string) int64 { return median(r.Starts[name], func(s startup) int64 { return s.Idle.RSS }) }
	say := func(ok bool) string {
		if ok {
			return "met"
		}
		return "**missed**"
	}
	a, b := took("tidemark"), took("kafka")
	fmt.Fprintf(w, "| start-up to the first ApiVersions answer | ≤ 1/50 | %.1f ms | %.0f ms | 1/%.0f | | %s |\n",
		float64(a)/1e6, float64(b)/1e6, float64(b)/float64(a), say(50*a <= b))
	m, k := rss("tidemark"), rss("kafka")
	fmt.Fprintf(w, "| idle RSS | ≤ 1/15, ≤ 25 MiB | %.1f MiB | %.0f MiB | 1/%.0f | | %s |\n",
		float64(m)/(1<<20), float64(k)/(1<<20), float64(k)/float64(m), say(15*m <= k && m <= 25<<20))
}

// readReport reads what -raw wrote. Several files are one report, in which the
// cells of a later file replace those of an earlier one.
func readReport(files []string) (*report, error) {
	whole := &report{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var part report
		if err := json.Unmarshal(b, &part); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if whole.Results == nil {
			whole.Results = part.Results
			whole.Brokers, whole.Rounds, whole.Starts = part.Brokers, part.Rounds, part.Starts
			continue
		}
		for cell, results := range part.Results { // order-free: a merge by key
			whole.Results[cell] = results
		}
	}
	for _, c := range bench.Cells() {
		whole.order = append(whole.order, c.Name)
	}
	for _, c := range bench.RDKafkaCells("") {
		whole.order = append(whole.order, c.Name)
	}
	whole.order = append(whole.order, loadCell, loadOnlyCell, killedCell, tailCell, hotCell, rawCell, coldCell, cleanCell)
	return whole, nil
}
