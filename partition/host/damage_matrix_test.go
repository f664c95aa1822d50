package host

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// damageSlices is into how many parts the matrix falls: the short test takes another one
// each day.
const damageSlices = 30

// part says which cases are run: all of them, or those of one slice.
type part struct {
	of, k int
	seen  int
}

// sliced is all of a matrix if the long variants are wanted, else a slice of it.
func sliced(t *testing.T, of int) *part {
	if os.Getenv("TIDEMARK_TEST_LONG") != "" {
		return &part{of: 1}
	}
	k := int(time.Now().Unix() / 86400 % int64(of))
	if text := os.Getenv("TIDEMARK_DAMAGE_SLICE"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		k = n % of
	}
	t.Logf("again: TIDEMARK_DAMAGE_SLICE=%d; all of it: TIDEMARK_TEST_LONG=1", k)
	return &part{of: of, k: k}
}

// has says whether the next case is wanted.
func (p *part) has() bool {
	p.seen++
	return p.seen%p.of == p.k
}

// tally counts what came of the cases.
type tally struct {
	cases, quarantined, shortened, refused int
	limits                                 map[string]int
	wrong                                  map[string]int
}

// try runs one case.
func (y *tally) try(t *testing.T, u *ruin, h *harm) *trial {
	c := &trial{t: t, u: u, h: h, disk: u.disk, limit: y.limits}
	if h != nil {
		c.disk = u.disk.Fork()
		h.apply(t, c.disk)
	}
	c.run(y.cases)
	y.cases++
	for _, s := range []struct {
		is bool
		n  *int
	}{{c.quarantined, &y.quarantined}, {c.shortened, &y.shortened}, {c.refused, &y.refused}} {
		if s.is {
			*s.n++
		}
	}
	if len(c.wrong) == 0 {
		return c
	}
	if y.wrong[c.wrong[0]]++; len(y.wrong) <= 30 && y.wrong[c.wrong[0]] == 1 {
		t.Errorf("%s; %s:\n\t%s", u, h, strings.Join(c.wrong, "\n\t"))
	}
	return c
}

// whole starts without damage, and notes what is there.
func (y *tally) whole(t *testing.T, u *ruin) bool {
	if c := y.try(t, u, nil); len(c.wrong) > 0 {
		return false
	}
	n := u.node(t, u.disk.Fork())
	n.start()
	u.whole = observe(n)
	for topic, s := range u.whole.logs { // order-free: each is its own
		s.locate(t, u.disk, topic)
	}
	return true
}

func newTally() *tally { return &tally{limits: map[string]int{}, wrong: map[string]int{}} }

func (y *tally) report(t *testing.T) {
	t.Logf("%d cases: %d quarantined, %d cut, %d refused to start", y.cases, y.quarantined, y.shortened, y.refused)
	for _, what := range slices.Sorted(maps.Keys(y.limits)) {
		t.Logf("not told: %s: %d", what, y.limits[what])
	}
	if y.quarantined == 0 || y.shortened == 0 {
		t.Error("nothing was quarantined, or nothing cut: the test can't fail")
	}
	for _, what := range slices.Sorted(maps.Keys(y.wrong)) {
		t.Logf("%d times: %s", y.wrong[what], what)
	}
}

// TestDamageAtEveryByte damages a broker's disk after each kind of stop: every byte
// of headers of batches, and of every other file, in every way. See judge for what
// may come of it.
func TestDamageAtEveryByte(t *testing.T) {
	l, y := wholeLife(t), newTally()
	ruins := []*ruin{l.orderly()}
	for _, e := range endings()[:2] {
		ruins = append(ruins, l.last.after(t, e, nil))
	}
	p := sliced(t, damageSlices)
	for _, u := range ruins {
		if !y.whole(t, u) {
			t.Fatalf("%s: undamaged", u)
		}
		u.harms(t, func(h *harm) bool {
			if p.has() {
				y.try(t, u, h)
			}
			return true
		})
	}
	t.Logf("%d cases in all", p.seen)
	y.report(t)
}

// TestDamageAtEveryWrite ends the broker's life in front of each change of the disk,
// and then damages what was being written.
func TestDamageAtEveryWrite(t *testing.T) {
	l, y := wholeLife(t), newTally()
	p := sliced(t, damageSlices)
	seen := map[string]int{}
	for i, s := range l.scenes {
		for k, e := range endings() {
			r := rand.New(rand.NewPCG(uint64(i), uint64(k)))
			u := s.after(t, e, r)
			if !y.whole(t, u) {
				t.Fatalf("%s: undamaged", u)
			}
			u.nearTheWrite(t, func(h *harm) bool {
				if p.has() {
					y.try(t, u, h)
				}
				return true
			})
		}
		seen[s.step]++
	}
	t.Logf("%d changes of the disk (%v), %d cases in all", len(l.scenes), seen, p.seen)
	for _, step := range []string{"append", "roll", "flush", "checkpoint", "truncate", "compact", "delete records", "restart", "stop"} {
		if seen[step] == 0 {
			t.Errorf("nothing was changed in %q", step)
		}
	}
	y.report(t)
}
