package compaction

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
)

// TestOffsetMapIsAMap compares it with Go's own, under several budgets.
func TestOffsetMapIsAMap(t *testing.T) {
	for _, bytes := range []int64{0, 24, 100, 1000, 30_000, 1 << 20, 8 << 20} {
		r := rand.New(rand.NewPCG(uint64(bytes), 7))
		m := NewOffsetMap(bytes, 0.9, Secret{1, 2})
		model_ := make(map[string]model.Offset)
		full := 0
		for o := range model.Offset(100_000) {
			key := fmt.Sprintf("key-%d", r.IntN(70_000))
			_, known := model_[key]
			if !m.Put([]byte(key), o) {
				full++
				if known {
					t.Fatalf("%d bytes: a key that is there was refused", bytes)
				}
				continue
			}
			model_[key] = o
			if m.Latest() != o {
				t.Fatalf("latest is %d, want %d", m.Latest(), o)
			}
		}
		for i := range 70_000 {
			key := fmt.Sprintf("key-%d", i)
			got, ok := m.Get([]byte(key))
			if want, known := model_[key]; ok != known || ok && got != want {
				t.Fatalf("%d bytes: %s is at %d, %v; want %d, %v", bytes, key, got, ok, want, known)
			}
		}
		if m.Len() != len(model_) || m.Len() == 0 {
			t.Errorf("%d bytes: %d keys, want %d", bytes, m.Len(), len(model_))
		}
		if most := max(bytes, 2*SlotBytes); m.Bytes() > most {
			t.Errorf("%d bytes: takes %d", bytes, m.Bytes())
		}
		if full > 0 && m.Utilization() < 0.97 && bytes > 0 {
			t.Errorf("%d bytes: full at %.2f of what it may hold", bytes, m.Utilization())
		}
	}
}

func TestOffsetMapCostsNoAllocationWhenGrown(t *testing.T) {
	m := NewOffsetMap(1<<20, 0.9, Secret{3, 4})
	key := []byte("a key of usual length")
	m.Put(key, 1)
	if n := testing.AllocsPerRun(100, func() {
		m.Put(key, 2)
		m.Get(key)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOffsetMap(b *testing.B) {
	keys := make([][]byte, 1<<20)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%016d", i)
	}
	m := NewOffsetMap(128<<20, 0.9, Secret{3, 4})
	for i, k := range keys {
		m.Put(k, model.Offset(i))
	}
	b.ReportMetric(float64(m.Bytes())/float64(m.Len()), "bytes/key")
	r := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		m.Get(keys[r.IntN(len(keys))])
	}
}
