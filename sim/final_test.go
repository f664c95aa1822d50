package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Two replicas with the same batches have the same digest, wherever their
// segments begin; another batch gives another.
func TestDigestOfReplicas(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	tp := model.TopicPartition{Topic: "d0", Partition: 1}
	batch := func(base byte, id uint64) []byte {
		b := appendBatch(nil, []outRecord{{id: id, ts: 5}}, -1, -1, -1)
		b[7] = base
		return b
	}
	sum := func(m *machine, segments map[int][][]byte) uint64 {
		t.Helper()
		for base, batches := range segments { // order-free: each is a file
			var file []byte
			for _, b := range batches {
				file = append(file, b...)
			}
			if err := m.disk.MkdirAll(partDir(tp), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := vfs.WriteFileAtomic(m.disk, fmt.Sprintf("%s/%020d.log", partDir(tp), base), file); err != nil {
				t.Fatal(err)
			}
		}
		var s traceHash
		(&replica{m: m, tp: tp}).digest(&s, 2)
		return uint64(s)
	}
	b := [][]byte{batch(0, 1), batch(1, 2), batch(2, 3), batch(3, 4)}
	one := sum(w.machines[0], map[int][][]byte{0: b})
	if two := sum(w.machines[1], map[int][][]byte{1: b[1:3], 3: b[3:]}); one != two {
		t.Errorf("the same batches in other segments: %x, %x", one, two)
	}
	if other := sum(w.machines[2], map[int][][]byte{0: {b[0], b[1], b[2], batch(3, 5)}}); one == other {
		t.Errorf("another batch has the same digest %x", one)
	}
}

// A world whose followers are given one batch in each fetch has time for all of
// them (seed 400144).
func TestSlowFollowersHaveTime(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	w.o.fetchMax, w.o.latency, w.o.padMax = 1, 5*time.Millisecond, 1500
	for i, gone := range []bool{false, false, true} {
		p := w.h.part(model.TopicIDPartition{Partition: int32(i)}, model.TopicPartition{Topic: "d0", Partition: int32(i)})
		p.recs, p.gone = make([]rec, 6000*(i+1)), gone
	}
	for _, tc := range []struct {
		bytes, segment, pad int
		more                model.Instant
	}{
		{1, 1 << 20, 1500, 240}, {1000, 1 << 20, 1500, 240}, {1000, 1 << 20, 20, 30}, {1 << 20, 1 << 20, 1500, 0},
		{1 << 20, 700, 1500, 240}, {1 << 20, 1000, 20, 30}, // a fetch ends with a segment
	} {
		w.o.fetchMax, w.o.segmentBytes, w.o.padMax = int32(tc.bytes), int32(tc.segment), tc.pad
		if got, want := w.endWithin()/second, 60+tc.more; got != want {
			t.Errorf("12000 records in fetches of %d bytes and segments of %d, over 5 ms each: %d s, want %d", tc.bytes, tc.segment, got, want)
		}
	}
}
