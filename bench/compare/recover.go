package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark/tidemark/bench"
)

// Starts on logs: after kill -9, when all has to be read again, and on many clean
// partitions.
const (
	killedCell = "R1-after-kill"
	tailCell   = "R1-after-kill-tail"
	hotCell    = "R2-recover-all-hot"
	coldCell   = "R3-recover-all-cold"
	rawCell    = "R3-raw-read-cold"
	cleanCell  = "R4-start-clean-partitions"
)

// recoveryPoints is the file, of both brokers, that says up to where a log needs
// no check. Without it all of a log is checked.
const recoveryPoints = "recovery-point-offset-checkpoint"

// recoveries measures the starts that match. At scale 1 the log has 10 GB in ten
// partitions, and the clean partitions are 10,000.
func (r *report) recoveries(ctx context.Context, peers []*peer, match *regexp.Regexp, rounds int, scale float64) error {
	const batch = 64 << 10
	logs := bench.LogLoad{Topics: 1, Partitions: 10, BatchBytes: batch, Batches: max(10, int(scale*10e9/10/batch))}
	for _, p := range peers {
		if p.echo || !match.MatchString(killedCell) && !match.MatchString(hotCell) && !match.MatchString(coldCell) {
			continue
		}
		if err := r.recoverLogs(ctx, p, logs, rounds); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	clean := bench.LogLoad{Topics: 10, Partitions: max(1, int(1000*scale))}
	for _, p := range peers {
		if p.echo || !match.MatchString(cleanCell) {
			continue
		}
		if err := r.startClean(ctx, p, clean, rounds); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// recoverLogs fills a directory once, and starts on it again and again.
func (r *report) recoverLogs(ctx context.Context, p *peer, l bench.LogLoad, rounds int) error {
	dir := p.dir("recover")
	defer os.RemoveAll(dir)
	in, err := p.start(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { in.proc.Kill() }()
	if err := l.Fill(in.addr); err != nil {
		return err
	}
	ends, err := l.Await(in.addr)
	if err != nil {
		return err
	}
	again := func(cell string, tail bool) error {
		in.proc.Kill()
		began := time.Now()
		next, err := p.start(ctx, dir)
		if err != nil {
			return err
		}
		in = next
		prepared := time.Since(began) - in.took
		res := bench.Result{Cell: cell, Bytes: l.Bytes(), Requests: 1}
		if tail {
			if err := l.AwaitTail(in.addr, ends/int64(l.Partitions)); err != nil {
				return err
			}
			early := res
			early.Cell, early.Elapsed = tailCell, time.Since(began)-prepared
			r.add(p.name, early)
		}
		found, err := l.Await(in.addr)
		if err != nil {
			return err
		}
		if found != ends {
			return fmt.Errorf("%s: the logs end at %d in all, not %d", cell, found, ends)
		}
		res.Elapsed = time.Since(began) - prepared
		if res.Broker, err = bench.ReadUsage(in.pid); err != nil {
			return err
		}
		r.add(p.name, res)
		fmt.Fprintf(os.Stderr, "%s: %s: %.3g s, CPU %.3g s\n", p.name, cell, res.Elapsed.Seconds(), res.Broker.CPU.Seconds())
		return nil
	}
	if err := again(killedCell, true); err != nil {
		return err
	}
	for range rounds {
		in.proc.Kill()
		if err := forget(dir); err != nil {
			return err
		}
		if err := again(hotCell, false); err != nil {
			return err
		}
	}
	for range rounds {
		in.proc.Kill()
		if err := forget(dir); err != nil {
			return err
		}
		if err := dropCaches(); err != nil {
			fmt.Fprintln(os.Stderr, "cold rows are left out:", err)
			return nil
		}
		raw, err := readAll(dir)
		if err != nil {
			return err
		}
		r.add(p.name, raw)
		if err := dropCaches(); err != nil {
			return err
		}
		if err := again(coldCell, false); err != nil {
			return err
		}
	}
	return nil
}

// startClean makes many partitions that hold nothing, and starts on them.
func (r *report) startClean(ctx context.Context, p *peer, l bench.LogLoad, rounds int) error {
	dir := p.dir("clean")
	in, err := p.start(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { in.proc.Kill() }()
	if err := l.Fill(in.addr); err != nil {
		return err
	}
	for range rounds {
		if err := in.proc.Stop(5 * time.Minute); err != nil {
			return err
		}
		began := time.Now()
		if in, err = p.start(ctx, dir); err != nil {
			return err
		}
		prepared := time.Since(began) - in.took
		if _, err := l.Await(in.addr); err != nil {
			return err
		}
		res := bench.Result{Cell: cleanCell, Requests: int64(l.Topics * l.Partitions), Elapsed: time.Since(began) - prepared}
		if res.Broker, err = bench.ReadUsage(in.pid); err != nil {
			return err
		}
		r.add(p.name, res)
		fmt.Fprintf(os.Stderr, "%s: %s: %.3g s, CPU %.3g s\n", p.name, cleanCell, res.Elapsed.Seconds(), res.Broker.CPU.Seconds())
	}
	return nil
}

// forget removes what says how much of the logs needs no check.
func forget(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == recoveryPoints {
			return os.Remove(path)
		}
		return err
	})
}

// dropCaches writes everything back and empties the page cache. It needs root.
func dropCaches() error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

// readAll reads the logs once from end to end and does nothing with them.
func readAll(dir string) (bench.Result, error) {
	began := time.Now()
	res := bench.Result{Cell: rawCell, Requests: 1}
	buf := make([]byte, 1<<20)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".log") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
		res.Bytes += n
		return err
	})
	res.Elapsed = time.Since(began)
	return res, err
}
