package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/tidemark/tidemark/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	rounds := flag.Int("rounds", 5, "rounds that count; one more goes before them")
	scale := flag.Float64("scale", 1, "multiplies the work of each cell")
	only := flag.String("cells", "", "run only the cells whose name matches this regular expression")
	raw := flag.String("raw", "", "file to write every round's results to, as JSON")
	names := flag.String("brokers", "echo,tidemark,kfake,kafka", "which brokers to measure; the last one is what ratios refer to")
	rdkafka := flag.Bool("rdkafka", true, "run the rows through librdkafka too (needs cc and librdkafka-dev)")
	from := flag.String("from", "", "run nothing: print the report of these files of -raw, separated by commas")
	flag.Parse()
	if *from != "" {
		r, err := readReport(strings.Split(*from, ","))
		if err != nil {
			return err
		}
		r.printTargets(os.Stdout)
		r.print(os.Stdout)
		return nil
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tidemark-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	peers, err := choosePeers(ctx, *names, dir)
	if err != nil {
		return err
	}
	cells := bench.Cells()
	if *rdkafka {
		rdload, err := bench.BuildRDLoad(ctx, filepath.Join("bench", "rdload", "rdload.c"), dir)
		if err != nil {
			return err
		}
		cells = append(cells, bench.RDKafkaCells(rdload)...)
	}
	cells = slices.DeleteFunc(cells, func(c bench.Cell) bool { return !match.MatchString(c.Name) })
	report := &report{Brokers: peerNames(peers), Rounds: *rounds}
	if match.MatchString("T9-start") {
		if err := report.startups(ctx, peers, *rounds); err != nil {
			return err
		}
	}
	if match.MatchString(loadCell) {
		if err := report.loads(ctx, peers, *rounds, *scale); err != nil {
			return err
		}
	}
	if err := report.recoveries(ctx, peers, match, *rounds, *scale); err != nil {
		return err
	}
	// An interrupt ends the rounds; what they brought is reported.
	if err := report.cells(ctx, peers, cells, *rounds, *scale); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if *raw != "" {
		b, err := json.MarshalIndent(report, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(*raw, b, 0o644); err != nil {
			return err
		}
	}
	report.printTargets(os.Stdout)
	report.print(os.Stdout)
	return nil
}

// cells runs every cell against every running broker in turn.
func (r *report) cells(ctx context.Context, peers []*peer, cells []bench.Cell, rounds int, scale float64) error {
	running := make([]*instance, len(peers))
	for i, p := range peers {
		in, err := p.start(ctx, p.dir("cells"))
		if err != nil {
			return fmt.Errorf("start %s: %w", p.name, err)
		}
		defer in.stop()
		running[i] = in
	}
	for round := range rounds + 1 {
		for _, cell := range cells {
			for i, p := range peers {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if p.echo && !cell.Floor() {
					continue
				}
				res, err := cell.Run(bench.Target{Addr: running[i].addr, PID: running[i].pid, Echo: p.echo}, scale)
				if err != nil {
					// A peer that fails a cell is part of the picture; the product is not.
					if p.name == "tidemark" {
						return err
					}
					fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, err)
					continue
				}
				if round > 0 {
					r.add(p.name, res)
				}
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round, rounds, cell.Name)
		}
	}
	return nil
}
