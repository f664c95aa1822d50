package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// Report is what is kept of one seed's run: one line of JSON in a result file.
type Report struct {
	Seed    uint64         `json:"seed"`
	Commit  string         `json:"commit"`
	Events  uint64         `json:"events"`
	Seconds float64        `json:"virtualSeconds"`
	CPU     float64        `json:"cpuSeconds"` // of the process, meanwhile
	Hash    string         `json:"hash"`
	Boots   int            `json:"boots"`
	Acked   int            `json:"recordsAcknowledged"`
	Read    int            `json:"recordsRead"`
	Faults  map[string]int `json:"faults"`
	Failure string         `json:"failure,omitempty"`
	At      uint64         `json:"failedAtEvent,omitempty"` // 0: at the very end
}

// Commit names the revision that the binary was built from, "unknown" if it
// does not say.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+"
		}
	}
	return revision + dirty
}

// used is the CPU time that this process has used, its collector's included.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report turns a result into what is kept of it.
func report(r *Result, took time.Duration) Report {
	rep := Report{
		Seed: r.Seed, Commit: Commit(), Events: r.Events, Seconds: time.Duration(r.Time).Seconds(), CPU: took.Seconds(),
		Hash: fmt.Sprintf("%016x", r.Hash), Boots: r.Boots, Acked: r.Acknowledged, Read: r.Read, Faults: map[string]int{},
	}
	for i, n := range r.Faults {
		if n > 0 {
			rep.Faults[Kind(i).String()] = n
		}
	}
	if r.Failure != nil {
		rep.Failure, rep.At = r.Failure.Error(), r.Failure.Until()
	}
	return rep
}

// String is the report in one line.
func (r *Report) String() string {
	faults := make([]string, 0, len(r.Faults))
	for _, k := range Kinds() {
		if n := r.Faults[k.String()]; n > 0 {
			faults = append(faults, fmt.Sprintf("%s=%d", k, n))
		}
	}
	return fmt.Sprintf("seed=%d events=%d virtual=%.1fs cpu=%.2fs boots=%d acked=%d read=%d hash=%s faults=%s",
		r.Seed, r.Events, r.Seconds, r.CPU, r.Boots, r.Acked, r.Read, r.Hash, strings.Join(faults, ","))
}

// Replay is the command that runs a seed again up to its failure; at is what
// Failure.Until says.
func Replay(o *Options, at uint64) string {
	s := fmt.Sprintf("tidemark sim --seed %d", o.Seed)
	if at > 0 {
		s += fmt.Sprintf(" --until %d", at)
	}
	if o.Nodes > 0 {
		s += fmt.Sprintf(" --nodes %d", o.Nodes)
	}
	if o.Events > 0 && o.Events != DefaultEvents {
		s += fmt.Sprintf(" --events %d", o.Events)
	}
	if len(o.Without) > 0 {
		s += " --without " + joinKinds(o.Without)
	}
	if len(o.Skip) > 0 {
		s += " --skip " + joinSpans(o.Skip)
	}
	return s
}

// Timed runs one seed and reports it.
func Timed(o Options, trace io.Writer) Report {
	start := used()
	r := Run(o, trace)
	return report(&r, used()-start)
}

// Range runs the seeds from first to last with the given options, writes a line
// for each to out and their sum at the end, and a line of JSON to the file
// results if it is not "". Seeds that the file has already are passed over, so
// that a run can be continued; they count in the sum, and in how many failed,
// which is returned.
func Range(first, last uint64, o Options, results string, out io.Writer, stop <-chan struct{}) (failed int, err error) {
	done, sum, err := seedsIn(results)
	if err != nil {
		return 0, err
	}
	defer func() { fmt.Fprintln(out, &sum) }()
	var file *os.File
	if results != "" {
		if file, err = os.OpenFile(results, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
			return sum.Failed, err
		}
		defer file.Close()
	}
	for seed := first; seed <= last; seed++ {
		select {
		case <-stop:
			return sum.Failed, nil
		default:
		}
		if done[seed] {
			continue
		}
		o.Seed = seed
		r := Timed(o, nil)
		sum.Add(&r)
		fmt.Fprintln(out, r.String())
		if r.Failure != "" {
			fmt.Fprintf(out, "FAILED seed %d commit %s: %s\n  replay: %s\n", seed, r.Commit, r.Failure, Replay(&o, r.At))
		}
		if file == nil {
			continue
		}
		line, err := json.Marshal(r)
		if err != nil {
			return sum.Failed, err
		}
		if _, err := file.Write(append(line, '\n')); err != nil {
			return sum.Failed, err
		}
	}
	return sum.Failed, nil
}

// seedsIn reads which seeds a result file has, and what they came to.
func seedsIn(path string) (done map[uint64]bool, sum Sum, err error) {
	done = make(map[uint64]bool)
	if path == "" {
		return done, sum, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return done, sum, nil
	}
	if err != nil {
		return nil, sum, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var r Report
		if json.Unmarshal(in.Bytes(), &r) != nil {
			continue // a line cut off by the end of an earlier run
		}
		if !done[r.Seed] {
			done[r.Seed] = true
			sum.Add(&r)
		}
	}
	return done, sum, in.Err()
}
