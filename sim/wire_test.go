package sim

import (
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
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
	for name, story := range map[string]func(h *history, p *part, a, b *replica, plain, idem uint64){
		"another record at an offset": func(h *history, p *part, _, _ *replica, plain, idem uint64) {
			h.shown(p, 1, 0, plain, noTS, name(1))
			h.shown(p, 1, 0, idem, noTS, name(2))
		},
		"a record twice": func(h *history, p *part, _, _ *replica, _, idem uint64) {
			h.shown(p, 1, 0, idem, noTS, name(1))
			h.shown(p, 1, 1, idem, noTS, name(2))
		},
		"another timestamp": func(h *history, p *part, _, _ *replica, plain, _ uint64) {
			h.shown(p, 1, 0, plain, 5, name(1))
			h.shown(p, 1, 0, plain, 6, name(2))
		},
		"a record of nobody": func(h *history, p *part, _, _ *replica, _, _ uint64) { h.shown(p, 1, 0, 99, noTS, name(1)) },
		"a log that changes": func(h *history, _ *part, a, _ *replica, plain, idem uint64) {
			h.holds(a, 1, 0, plain, noTS, name(1))
			h.holds(a, 2, 0, idem, noTS, name(2))
		},
		"an epoch that holds two records at an offset": func(h *history, _ *part, a, b *replica, plain, idem uint64) {
			h.holds(a, 1, 0, plain, noTS, name(1))
			h.holds(b, 1, 0, idem, noTS, name(2))
		},
		"logs that differ below where they agree": func(h *history, p *part, a, b *replica, _, _ uint64) {
			a.state, b.state = new(host.State), new(host.State)
			a.batches = []stored{{0, 0, 1, 7}, {1, 1, 2, 8}}
			b.batches = []stored{{0, 0, 1, 6}, {1, 1, 2, 8}}
			h.world.checkMatch(p, a, b)
		},
		"a follower that cuts what was acknowledged": func(h *history, p *part, a, _ *replica, plain, _ uint64) {
			h.holds(a, 1, 0, plain, noTS, name(1))
			h.shown(p, 1, 0, plain, noTS, name(2))
			a.truncated(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
			tp := model.TopicPartition{Topic: "d0"}
			p := w.h.part(model.TopicIDPartition{}, tp)
			a, b := w.machines[0].replica(p), w.machines[1].replica(p)
			plain, idem := w.h.newPayload("d0", 0, false), w.h.newPayload("d0", 0, true)
			w.guarded(func() { story(&w.h, p, a, b, plain, idem) })
			if w.failure == nil {
				t.Error("not noticed")
			}
		})
	}
}

// Logs that part and hold the same below the parting agree.
func TestDivergedLogsMatch(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	p := w.h.part(model.TopicIDPartition{}, model.TopicPartition{Topic: "d0"})
	a, b := w.machines[0].replica(p), w.machines[1].replica(p)
	a.state, b.state = new(host.State), new(host.State)
	a.batches = []stored{{0, 1, 1, 7}, {2, 3, 1, 8}, {4, 4, 2, 9}}
	b.batches = []stored{{0, 1, 1, 7}, {2, 3, 1, 8}, {4, 5, 3, 10}}
	w.guarded(func() { w.checkMatch(p, a, b) })
	if w.failure != nil {
		t.Error(w.failure)
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
