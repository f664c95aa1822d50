package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark/tidemark/bench"
)

// report collects every round of every broker.
type report struct {
	Brokers []string
	Rounds  int
	Starts  map[string][]startup
	Results map[string]map[string][]bench.Result // cell → broker → rounds
	order   []string                             // cells as they came
}

// startup is one start of a broker on an empty directory and what it used when
// it had nothing to do for a while.
type startup struct {
	Took time.Duration
	Idle bench.Usage
}

// idleFor is how long a broker is left alone before its memory is read.
const idleFor = 3 * time.Second

func (r *report) startups(ctx context.Context, peers []*peer, rounds int) error {
	r.Starts = make(map[string][]startup)
	for round := range rounds + 1 {
		for _, p := range peers {
			if p.echo {
				continue // it is no broker
			}
			in, err := p.start(ctx, p.dir(filepath.Join("start", fmt.Sprint(round))))
			if err != nil {
				return err
			}
			select {
			case <-time.After(idleFor):
			case <-ctx.Done():
			}
			usage, err := bench.ReadUsage(in.pid)
			in.stop()
			if err != nil {
				return err
			}
			if round > 0 {
				r.Starts[p.name] = append(r.Starts[p.name], startup{Took: in.took, Idle: usage})
			}
		}
	}
	return nil
}

func (r *report) add(broker string, res bench.Result) {
	if r.Results == nil {
		r.Results = make(map[string]map[string][]bench.Result)
	}
	if r.Results[res.Cell] == nil {
		r.Results[res.Cell] = make(map[string][]bench.Result)
		r.order = append(r.order, res.Cell)
	}
	r.Results[res.Cell][broker] = append(r.Results[res.Cell][broker], res)
}

// print writes the medians, and each figure's ratio to the last broker's.
func (r *report) print(w io.Writer) {
	base := r.Brokers[len(r.Brokers)-1]
	fmt.Fprintf(w, "Medians of %d rounds; in brackets the ratio to %s of the same run (below 1 is less).\n\n", r.Rounds, base)
	if r.Starts != nil {
		fmt.Fprint(w, "| broker | exec to first ApiVersions answer | RSS idle |\n|---|---|---|\n")
		took := func(name string) time.Duration {
			return median(r.Starts[name], func(s startup) time.Duration { return s.Took })
		}
		rss := func(name string) int64 { return median(r.Starts[name], func(s startup) int64 { return s.Idle.RSS }) }
		for _, name := range r.Brokers {
			if len(r.Starts[name]) == 0 {
				continue
			}
			fmt.Fprintf(w, "| %s | %s (%s) | %.1f MiB (%s) |\n", name, took(name).Round(100*time.Microsecond), ratio(took(name), took(base)),
				float64(rss(name))/(1<<20), ratio(rss(name), rss(base)))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "| cell | broker | MB/s | req/s | broker cpu-s/GB | broker µs/req | p50 | p99 | RSS MiB |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, cell := range r.order {
		var ref bench.Result
		if rounds := r.Results[cell][base]; len(rounds) > 0 {
			ref = bench.Median(rounds)
		}
		for _, name := range r.Brokers {
			if rounds := r.Results[cell][name]; len(rounds) > 0 {
				printRow(w, cell, name, bench.Median(rounds), ref)
			}
		}
	}
}

func printRow(w io.Writer, cell, name string, m, ref bench.Result) {
	fmt.Fprintf(w, "| %s | %s | %.0f (%s) | %.0f | %.3f (%s) | %.1f (%s) | %s (%s) | %s (%s) | %.0f |\n", cell, name,
		m.BytesPerSecond()/1e6, ratioFloat(m.BytesPerSecond(), ref.BytesPerSecond()), m.RequestsPerSecond(),
		m.CPUPerGB(), ratioFloat(m.CPUPerGB(), ref.CPUPerGB()),
		float64(m.CPUPerRequest())/1e3, ratio(m.CPUPerRequest(), ref.CPUPerRequest()),
		m.P50.Round(100*time.Nanosecond), ratio(m.P50, ref.P50), m.P99.Round(100*time.Nanosecond), ratio(m.P99, ref.P99),
		float64(m.Broker.RSS)/(1<<20))
}

// median of one figure of all.
func median[T any, V ~int64](all []T, f func(T) V) V {
	vs := make([]V, len(all))
	for i, a := range all {
		vs[i] = f(a)
	}
	slices.Sort(vs)
	return vs[len(vs)/2]
}

func ratio[T ~int64](a, b T) string { return ratioFloat(float64(a), float64(b)) }

func ratioFloat(a, b float64) string {
	if b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g", a/b)
}
