package metadata

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTableModel compares a table with a map under random changes, and checks
// that no earlier copy of it ever changes.
func TestTableModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		tab := newTable[int, int](cmp.Compare[int])
		model := map[int]int{}
		type version struct {
			tab  table[int, int]
			want map[int]int
		}
		var kept []version
		o := new(owner)
		for step := range 3000 {
			k := rng.IntN(700)
			switch {
			case step%97 == 0: // what follows must not be seen in the copy
				want := map[int]int{}
				for k, v := range model {
					want[k] = v
				}
				kept = append(kept, version{tab, want})
				o = new(owner)
			case rng.IntN(5) < 3 != (step > 2000):
				tab.put(o, k, step)
				model[k] = step
			default:
				_, had := model[k]
				if tab.remove(o, k) != had {
					t.Fatalf("seed %d step %d: remove(%d) disagrees", seed, step, k)
				}
				delete(model, k)
			}
			if v, ok := tab.get(k); ok != (func() bool { _, ok := model[k]; return ok })() || v != model[k] {
				t.Fatalf("seed %d step %d: get(%d) = %d,%t, want %d", seed, step, k, v, ok, model[k])
			}
		}
		kept = append(kept, version{tab, model})
		for i, v := range kept {
			checkTable(t, i, &v.tab, v.want)
		}
	}
}

func checkTable(t *testing.T, at int, tab *table[int, int], want map[int]int) {
	t.Helper()
	var keys []int
	for k := range want {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var got []int
	for k, v := range tab.all() {
		if v != want[k] {
			t.Fatalf("version %d: %d = %d, want %d", at, k, v, want[k])
		}
		got = append(got, k)
	}
	if !slices.Equal(got, keys) || tab.size != len(keys) {
		t.Fatalf("version %d: keys %v size %d, want %v", at, got, tab.size, keys)
	}
	for _, from := range []int{-1, 0, 99, 350, 699, 700} {
		var got []int
		for k := range tab.from(from) {
			got = append(got, k)
		}
		i, _ := slices.BinarySearch(keys, from)
		if !slices.Equal(got, keys[i:]) {
			t.Fatalf("version %d from %d: %v, want %v", at, from, got, keys[i:])
		}
	}
	for _, c := range tab.chunks {
		if len(c.keys) == 0 || len(c.keys) > chunkMax {
			t.Fatalf("chunk of %d", len(c.keys))
		}
	}
}
