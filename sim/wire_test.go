package sim

import (
	"testing"

	"github.com/tidemark/tidemark/protocol/record"
)

// The simulator's own batches are what the product takes for batches, and are
// read back as they were written; a changed byte is noticed.
func TestOwnBatches(t *testing.T) {
	recs := []outRecord{{id: 7, ts: 1000, size: 0}, {id: 8, ts: 990, size: 300}, {id: 1 << 40, ts: 2000, size: 5}}
	b := appendBatch(nil, recs, 12, 3, 400)
	p := record.Batch(b)
	if p.CheckHeader() != nil || p.CheckCRC() != nil || p.Count() != 3 || p.ProducerID() != 12 || p.BaseSequence() != 400 || p.MaxTimestamp() != 2000 {
		t.Errorf("the product reads count %d producer %d sequence %d max %d", p.Count(), p.ProducerID(), p.BaseSequence(), p.MaxTimestamp())
	}
	i := 0
	n, err := eachBatch(b, func(h *batchHead, raw []byte) error {
		return eachRecord(h, raw, func(g gotRecord) error {
			if g.id != recs[i].id || g.ts != recs[i].ts || g.offset != int64(i) {
				t.Errorf("record %d is %+v, want %+v", i, g, recs[i])
			}
			i++
			return nil
		})
	})
	if n != len(b) || err != nil || i != 3 {
		t.Errorf("read %d of %d bytes, %d records, %v", n, len(b), i, err)
	}
	for at := headerLen; at < len(b); at++ {
		b[at] ^= 4
		if _, err := eachBatch(b, func(*batchHead, []byte) error { return nil }); err == nil {
			t.Fatalf("a flipped bit at %d is not noticed", at)
		}
		b[at] ^= 4
	}
	if n, err := eachBatch(b[:len(b)-1], nil); n != 0 || err != nil {
		t.Errorf("a cut batch: %d bytes, %v", n, err)
	}
}

// What a history must not contain ends the run.
func TestHistoryNoticesContradictions(t *testing.T) {
	for name, story := range map[string]func(h *history, p *part, plain, idem uint64){
		"another record at an offset": func(h *history, p *part, plain, idem uint64) {
			h.learn(p, 0, plain, noTS, true, name(1))
			h.learn(p, 0, idem, noTS, false, name(2))
		},
		"a record twice": func(h *history, p *part, _, idem uint64) {
			h.learn(p, 0, idem, noTS, true, name(1))
			h.learn(p, 1, idem, noTS, true, name(2))
		},
		"another timestamp": func(h *history, p *part, plain, _ uint64) {
			h.learn(p, 0, plain, 5, true, name(1))
			h.learn(p, 0, plain, 6, true, name(2))
		},
		"a record of nobody": func(h *history, p *part, _, _ uint64) { h.learn(p, 0, 99, noTS, true, name(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(Options{Seed: 1}, nil)
			p := &part{}
			p.tp.Topic = "d0"
			plain, idem := w.h.newPayload("d0", 0, false), w.h.newPayload("d0", 0, true)
			w.guarded(func() { story(&w.h, p, plain, idem) })
			if w.failure == nil {
				t.Error("not noticed")
			}
		})
	}
}

// name tells sightings apart in failures.
func name(n int) string { return "sighting " + utoa(uint64(n)) }

func TestParseKinds(t *testing.T) {
	ks, err := ParseKinds("kill, fsync")
	if err != nil || len(ks) != 2 || ks[0] != KindKill || ks[1] != KindFsync {
		t.Errorf("%v, %v", ks, err)
	}
	if _, err := ParseKinds("kill,bogus"); err == nil {
		t.Error("an unknown kind is taken")
	}
}
