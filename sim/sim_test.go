package sim

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// seeds is how many seeds a run of the tests has: TIDEMARK_SIM_SEEDS, else a
// few.
func seeds(t *testing.T) uint64 {
	if s := os.Getenv("TIDEMARK_SIM_SEEDS"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TIDEMARK_SIM_SEEDS=%q: %v", s, err)
		}
		return n
	}
	if testing.Short() {
		return 10
	}
	return 40
}

func TestSeeds(t *testing.T) {
	n := seeds(t)
	for seed := uint64(1); seed <= n; seed++ {
		o := Options{Seed: seed}
		if r := Run(o, nil); r.Failure != nil {
			t.Errorf("%v\n%s\nreplay: %s", r.Failure, r.Options, Replay(&o, r.Failure.Event))
		} else if r.Events < 20_000 {
			t.Errorf("seed %d: %d events, want at least 20000", seed, r.Events)
		}
	}
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
