package sim

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// number reads an environment variable, which has another value if it is not
// set.
func number(t *testing.T, name string, or uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return or
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: %v", name, s, err)
	}
	return n
}

// againEvery is how many seeds lie between two that are run twice: all are but in long
// runs.
func againEvery(seeds uint64) uint64 {
	if seeds <= 100 {
		return 1
	}
	return 50
}

// TIDEMARK_SIM_SEEDS is how many seeds are run, TIDEMARK_SIM_FROM the first.
func TestSeeds(t *testing.T) {
	few := uint64(40)
	if testing.Short() {
		few = 10
	}
	from, n := number(t, "TIDEMARK_SIM_FROM", 1), number(t, "TIDEMARK_SIM_SEEDS", few)
	var sum Sum
	for seed := from; seed < from+n; seed++ {
		o := Options{Seed: seed}
		start := used()
		r := Run(o, nil)
		rep := report(&r, used()-start)
		sum.Add(&rep)
		switch {
		case r.Failure != nil:
			t.Errorf("%v\n%s\nreplay: %s", r.Failure, r.Options, Replay(&o, r.Failure.Until()))
		case r.Events < 20_000:
			t.Errorf("seed %d: %d events, want at least 20000", seed, r.Events)
		case (seed-from)%againEvery(n) == 0:
			if again := Run(o, nil); again.Hash != r.Hash || again.Events != r.Events {
				t.Errorf("seed %d: hash %x after %d events, then %x after %d", seed, r.Hash, r.Events, again.Hash, again.Events)
			}
		}
	}
	t.Logf("seeds %d to %d: %v", from, from+n-1, &sum)
}

// The same seed is the same run: twice in one process, and in another process,
// where maps, pools and addresses are others.
func TestDeterminism(t *testing.T) {
	if os.Getenv("TIDEMARK_SIM_HASH") != "" {
		r := Run(Options{Seed: 7, Nodes: 3}, nil)
		os.Stdout.WriteString("hash " + strconv.FormatUint(r.Hash, 16) + "\n")
		return
	}
	for seed := uint64(1); seed <= 4; seed++ {
		nodes := int(seed%2)*2 + 1
		a, b := Run(Options{Seed: seed, Nodes: nodes}, nil), Run(Options{Seed: seed, Nodes: nodes}, new(bytes.Buffer))
		if a.Hash != b.Hash || a.Events != b.Events {
			t.Errorf("seed %d: hash %x after %d events, then %x after %d", seed, a.Hash, a.Events, b.Hash, b.Events)
		}
	}
	want := "hash " + strconv.FormatUint(Run(Options{Seed: 7, Nodes: 3}, nil).Hash, 16)
	cmd := exec.Command(os.Args[0], "-test.run=TestDeterminism$")
	cmd.Env = append(os.Environ(), "TIDEMARK_SIM_HASH=1")
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("in another process: %q, %v, want %q", out, err, want)
	}
}

func TestSeedsDiffer(t *testing.T) {
	seen := map[uint64]uint64{}
	for seed := uint64(1); seed <= 5; seed++ {
		h := Run(Options{Seed: seed, Until: 500}, nil).Hash
		if other, ok := seen[h]; ok {
			t.Errorf("seeds %d and %d are the same run", other, seed)
		}
		seen[h] = seed
	}
}
