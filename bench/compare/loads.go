package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/tidemark/tidemark/bench"
)

// A broker is started with many committed offsets; the cell with and without what
// a start costs that has next to none.
const (
	loadCell     = "G4-load-offsets"
	loadOnlyCell = "G4-load-offsets-only"
)

// loads measures starts with a million committed offsets at scale 1: from exec
// until they are served.
func (r *report) loads(ctx context.Context, peers []*peer, rounds int, scale float64) error {
	few := bench.OffsetsLoad{Groups: 500, Partitions: 1}
	many := bench.OffsetsLoad{Groups: max(500, int(10_000*scale)), Partitions: 100}
	for _, p := range peers {
		if p.echo {
			continue
		}
		for _, l := range []bench.OffsetsLoad{few, many} {
			if err := p.fillOffsets(ctx, p.dir(fmt.Sprint("offsets-", l.Groups)), l); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	for round := range rounds + 1 {
		for _, p := range peers {
			if p.echo {
				continue
			}
			base, err := p.startWithOffsets(ctx, p.dir(fmt.Sprint("offsets-", few.Groups)), few)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			whole, err := p.startWithOffsets(ctx, p.dir(fmt.Sprint("offsets-", many.Groups)), many)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			only := whole
			only.Cell = loadOnlyCell
			only.Elapsed = max(0, whole.Elapsed-base.Elapsed)
			only.Broker.CPU = max(0, whole.Broker.CPU-base.Broker.CPU)
			if round > 0 {
				r.add(p.name, whole)
				r.add(p.name, only)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round, rounds, loadCell)
	}
	return nil
}

// fillOffsets commits the offsets in a new directory.
func (p *peer) fillOffsets(ctx context.Context, dir string, l bench.OffsetsLoad) error {
	in, err := p.start(ctx, dir)
	if err != nil {
		return err
	}
	defer in.stop()
	return l.Fill(in.addr)
}

// startWithOffsets starts a broker where there are offsets, and stops it when it
// has served them.
func (p *peer) startWithOffsets(ctx context.Context, dir string, l bench.OffsetsLoad) (bench.Result, error) {
	began := time.Now()
	in, err := p.start(ctx, dir)
	if err != nil {
		return bench.Result{}, err
	}
	defer in.stop()
	prepared := time.Since(began) - in.took // before the process
	if err := l.Await(in.addr); err != nil {
		return bench.Result{}, err
	}
	res := bench.Result{Cell: loadCell, Elapsed: time.Since(began) - prepared, Requests: int64(l.Groups * l.Partitions), Records: int64(l.Groups * l.Partitions)}
	res.Bytes = res.Records * 100 // about what one takes in the log
	res.Broker, err = bench.ReadUsage(in.pid)
	return res, err
}
