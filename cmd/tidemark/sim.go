package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark/tidemark/sim"
)

func newSim(s streams) *cobra.Command {
	var run simRun
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run brokers in a simulated world that is drawn from a seed",
		Long: "Runs a whole cluster, its disks, its network, its clients and their faults in one process without\n" +
			"threads, clocks or files, and checks all the time that nothing acknowledged is lost,\n" +
			"changed or repeated. The same seed does the same every time. One seed prints a line\n" +
			"for every change of state; several print a line each, and their sum. Ends with 1 if a\n" +
			"seed failed.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run.run(cmd.Context().Done(), s) },
	}
	fs := cmd.Flags()
	fs.Uint64Var(&run.seed, "seed", 1, "the seed to run, with a trace")
	fs.StringVar(&run.seeds, "seeds", "", "run the seeds A..B instead, without traces")
	fs.Uint64Var(&run.options.Until, "until", 0, "stop after this many events; 0 goes on to the end")
	fs.Uint64Var(&run.options.Events, "events", sim.DefaultEvents, "events before the world is healed and has to come to its end")
	fs.IntVar(&run.options.Nodes, "nodes", 0, "how many brokers; 0 has the seed choose")
	fs.StringVar(&run.out, "out", "", "with --seeds: append results to this file and pass over the seeds that it has")
	fs.StringVar(&run.without, "without", "", "kinds of fault to leave out, comma-separated: "+kindList())
	fs.StringVar(&run.skip, "skip", "", "acts of the nemesis to leave out, comma-separated, each kind:first-last, as the trace numbers them")
	fs.BoolVar(&run.shrink, "shrink", false, "look for a simpler run that fails in the same way")
	fs.BoolVar(&run.quiet, "quiet", false, "print the result of --seed only")
	return cmd
}

func kindList() string {
	var names []string
	for _, k := range sim.Kinds() {
		names = append(names, k.String())
	}
	return strings.Join(names, " ")
}

// simRun is one invocation.
type simRun struct {
	options             sim.Options
	seed                uint64
	seeds, out, without string
	skip                string
	shrink, quiet       bool
}

func (r *simRun) run(stop <-chan struct{}, s streams) error {
	debug.SetGCPercent(400) // a seed makes much garbage and keeps little
	var err error
	if r.options.Without, err = sim.ParseKinds(r.without); err != nil {
		return &usageError{fmt.Errorf("--without: %w", err)}
	}
	if r.options.Skip, err = sim.ParseSpans(r.skip); err != nil {
		return &usageError{fmt.Errorf("--skip: %w", err)}
	}
	if r.options.Nodes < 0 {
		return &usageError{fmt.Errorf("--nodes %d: want none or more", r.options.Nodes)}
	}
	if r.seeds != "" {
		first, last, err := parseSeeds(r.seeds)
		if err != nil {
			return err
		}
		failed, err := sim.Range(first, last, r.options, r.out, s.out, stop)
		if err == nil && failed > 0 {
			return errFound
		}
		return err
	}
	r.options.Seed = r.seed
	if r.shrink {
		o, failure := sim.Shrink(r.options, s.err)
		if failure == nil {
			return nil
		}
		fmt.Fprintf(s.out, "replay: %s\n", sim.Replay(&o, failure.Until()))
		return errFound
	}
	trace := s.out
	if r.quiet {
		trace = io.Discard
	}
	return r.one(trace, s)
}

func (r *simRun) one(trace io.Writer, s streams) error {
	var to io.Writer
	if trace != io.Discard {
		to = trace
	}
	rep := sim.Timed(r.options, to)
	fmt.Fprintln(s.out, rep.String())
	if rep.Failure == "" {
		return nil
	}
	fmt.Fprintf(s.out, "FAILED seed %d commit %s: %s\nreplay: %s\n", rep.Seed, rep.Commit, rep.Failure, sim.Replay(&r.options, rep.At))
	return errFound
}

// parseSeeds reads A..B.
func parseSeeds(s string) (first, last uint64, err error) {
	a, b, ok := strings.Cut(s, "..")
	if ok {
		if first, err = strconv.ParseUint(a, 10, 64); err == nil {
			last, err = strconv.ParseUint(b, 10, 64)
		}
	}
	if !ok || err != nil || last < first {
		return 0, 0, &usageError{fmt.Errorf("--seeds %q: want A..B with A not above B", s)}
	}
	return first, last, nil
}
