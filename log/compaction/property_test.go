package compaction

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// randomLog is a log that grows and is cleaned at random, beside all that was
// ever appended.
type randomLog struct {
	r       *rand.Rand
	batches []record.Batch
	all     map[model.Offset]rec // every record that was ever appended
	bad     map[model.Offset]bool
	end     model.Offset
	seq     map[model.ProducerID]model.Sequence
	open    map[model.ProducerID]bool
	epoch   model.LeaderEpoch
	// dirty is where the last cleaning ended.
	dirty model.Offset
	// reach is where the furthest cleaning ended that could have ended there.
	reach model.Offset
	now   model.Timestamp
	// gone says since when a tombstone may be gone.
	until map[model.Offset]model.Timestamp
}

type rec struct {
	key, value []byte
	ts         model.Timestamp
}

func newRandomLog(seed uint64) *randomLog {
	return &randomLog{
		r: rand.New(rand.NewPCG(seed, 3)), all: make(map[model.Offset]rec), bad: make(map[model.Offset]bool),
		seq: make(map[model.ProducerID]model.Sequence), open: make(map[model.ProducerID]bool),
		until: make(map[model.Offset]model.Timestamp), now: 10_000,
	}
}

// append adds a batch, or ends a transaction.
func (l *randomLog) append() {
	r := l.r
	if r.IntN(20) == 0 {
		l.epoch++
	}
	id := model.ProducerID(r.IntN(4))
	o := record.Options{BaseOffset: l.end, LeaderEpoch: l.epoch, Codec: record.Codec([]int{0, 0, 0, 1, 2, 3, 4}[r.IntN(7)])}
	switch {
	case id == 0:
	case l.open[id] && r.IntN(3) == 0:
		l.marker(id, r.IntN(2) == 0)
		return
	default:
		o.Idempotent, o.ProducerID, o.BaseSequence = true, id, l.seq[id]
		o.Transactional = l.open[id] || r.IntN(3) == 0
		l.open[id] = o.Transactional
	}
	if r.IntN(6) == 0 {
		o.TimestampType, o.AppendTime = record.LogAppendTime, l.now
	}
	b := record.NewBuilder(o)
	n := 1 + r.IntN(6)
	for range n {
		x := rec{key: fmt.Appendf(nil, "k%d", r.IntN(12)), ts: l.now + model.Timestamp(r.IntN(50))}
		if r.IntN(4) > 0 {
			x.value = fmt.Appendf(nil, "v%d", l.end)
		}
		if r.IntN(40) == 0 {
			x.key = nil
		}
		b.Append(x.ts, x.key, x.value)
		if o.TimestampType == record.LogAppendTime {
			x.ts = o.AppendTime
		}
		l.all[l.end] = x
		l.end++
	}
	l.seq[id] = l.seq[id].Add(int32(n))
	l.batches = append(l.batches, b.Build())
}

func (l *randomLog) marker(id model.ProducerID, commit bool) {
	b := record.NewBuilder(record.Options{
		BaseOffset: l.end, LeaderEpoch: l.epoch, ProducerID: id, Idempotent: true, BaseSequence: model.NoSequence,
		Transactional: true, Control: true,
	})
	kind := record.Abort
	if commit {
		kind = record.Commit
	}
	b.AppendMarker(l.now, record.Marker{Type: kind})
	l.batches = append(l.batches, b.Build())
	l.open[id] = false
	l.end++
	if !commit {
		for _, a := range abortedIn(l.batches) {
			for _, x := range l.batches {
				if x.IsTransactional() && !x.IsControl() && x.ProducerID() == a.ProducerID && x.BaseOffset() >= a.First && x.BaseOffset() < a.Last {
					for o := x.BaseOffset(); o <= x.LastOffset(); o++ {
						l.bad[o] = true
					}
				}
			}
		}
	}
}

// stable is the last stable offset.
func (l *randomLog) stable() model.Offset {
	first := make(map[model.ProducerID]model.Offset)
	for _, b := range l.batches {
		id := b.ProducerID()
		switch {
		case !b.IsTransactional():
		case b.IsControl():
			delete(first, id)
		default:
			if _, ok := first[id]; !ok {
				first[id] = b.BaseOffset()
			}
		}
	}
	stable := l.end
	for _, o := range first { // order-free
		stable = min(stable, o)
	}
	return stable
}

const testRetention = 300

// clean cleans up to a batch's end at or below the last stable offset.
func (l *randomLog) clean(t *testing.T) {
	stable := l.stable()
	to := model.Offset(0)
	for _, b := range l.batches {
		if b.BaseOffset() <= stable && l.r.IntN(8) > 0 && b.BaseOffset() >= l.dirty {
			to = b.BaseOffset()
		}
	}
	if to <= l.dirty {
		return
	}
	producers := lastRecords(l.batches)
	for id := range producers { // order-free
		if l.r.IntN(10) == 0 {
			delete(producers, id) // it expired
			delete(l.seq, id)
		}
	}
	before := lastRecords(l.batches)
	c := cleaning{from: l.dirty, to: to, slots: int64(3 + l.r.IntN(30)), rules: Rules{
		Now: l.now, DeleteRetentionMs: testRetention, End: to, Producers: producers,
	}}
	left, _, cleaned, err := c.clean(l.batches)
	if err != nil {
		t.Fatal(err)
	}
	if cleaned <= l.dirty || cleaned > to {
		t.Fatalf("cleaned to %d, from %d of %d", cleaned, l.dirty, to)
	}
	l.batches, l.dirty = left, cleaned
	for id, last := range lastRecords(left) { // order-free
		if want, ok := producers[id]; ok && last != want {
			t.Fatalf("producer %d is at %+v, was at %+v", id, last, before[id])
		}
	}
	for id := range producers { // order-free
		if _, ok := lastRecords(left)[id]; !ok {
			t.Fatalf("producer %d is gone", id)
		}
	}
	l.reach = max(l.reach, to)
	l.check(t)
}

// check compares what is left with all that was appended.
func (l *randomLog) check(t *testing.T) {
	t.Helper()
	newest := make(map[string]model.Offset) // of what counts, below the cleaned point
	for o, x := range l.all {               // order-free: a maximum
		if x.key != nil && !l.bad[o] && o < l.dirty {
			if at, ok := newest[string(x.key)]; !ok || o > at {
				newest[string(x.key)] = o
			}
		}
	}
	left := make(map[model.Offset]bool)
	next, epoch := model.Offset(0), model.LeaderEpoch(0)
	for _, b := range l.batches {
		if err := b.CheckHeader(); err != nil {
			t.Fatal(err)
		}
		if err := b.CheckCRC(); err != nil {
			t.Fatal(err)
		}
		if b.BaseOffset() < next || b.LeaderEpoch() < epoch {
			t.Fatalf("batch [%d, %d] of epoch %d after %d of epoch %d", b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), next, epoch)
		}
		next, epoch = b.NextOffset(), b.LeaderEpoch()
		newestTS, count := model.NoTimestamp, 0
		if err := b.Each(0, func(r *record.Record) error {
			if b.IsControl() {
				return nil
			}
			x, ok := l.all[r.Offset]
			if !ok || !bytes.Equal(x.key, r.Key) || !bytes.Equal(x.value, r.Value) || (x.value == nil) != (r.Value == nil) || x.ts != r.Timestamp {
				t.Fatalf("record %d is %s=%s at %d, was %s=%s at %d", r.Offset, r.Key, r.Value, r.Timestamp, x.key, x.value, x.ts)
			}
			left[r.Offset] = true
			newestTS, count = max(newestTS, x.ts), count+1
			if b.HasDeleteHorizon() {
				l.until[r.Offset] = b.BaseTimestamp()
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if count > 0 && b.MaxTimestamp() != newestTS && !b.IsControl() {
			t.Fatalf("batch [%d, %d] says %d, its records %d", b.BaseOffset(), b.LastOffset(), b.MaxTimestamp(), newestTS)
		}
	}
	if next != l.end {
		t.Fatalf("the log ends at %d, want %d", next, l.end)
	}
	for o, x := range l.all { // order-free
		switch {
		case o >= l.reach:
			if !left[o] {
				t.Fatalf("record %d is gone, beyond %d", o, l.reach)
			}
		case l.bad[o]:
			if left[o] {
				t.Fatalf("record %d of an aborted transaction is left", o)
			}
		case x.key == nil:
			if left[o] && o < l.dirty {
				t.Fatalf("record %d without key is left", o)
			}
		case o >= l.dirty:
			if !left[o] {
				t.Fatalf("record %d is gone, %d was cleaned", o, l.dirty)
			}
		case o < newest[string(x.key)]:
			if left[o] {
				t.Fatalf("record %d of %s is left, %d is newer", o, x.key, newest[string(x.key)])
			}
		case !left[o] && x.value != nil:
			t.Fatalf("record %d of %s is gone, and it is the newest", o, x.key)
		case !left[o] && (l.until[o] == 0 || l.now < l.until[o]):
			t.Fatalf("tombstone %d of %s is gone at %d, it was to stay until %d", o, x.key, l.now, l.until[o])
		}
	}
}

// TestCleaningProperties: whatever is appended and cleaned, a reader from the
// start ends up with the latest value of each key, offsets and order stay, and
// each known producer's last batch does.
func TestCleaningProperties(t *testing.T) {
	cleaned, gone := 0, 0
	for seed := range uint64(400) {
		l := newRandomLog(seed)
		for range 30 {
			for range 1 + l.r.IntN(8) {
				l.append()
			}
			l.now += model.Timestamp(l.r.IntN(200))
			was := l.dirty
			l.clean(t)
			if l.dirty > was {
				cleaned++
			}
		}
		for o := range l.until { // order-free
			if l.now >= l.until[o] {
				gone++
			}
		}
	}
	if cleaned < 2000 || gone < 2000 {
		t.Fatalf("only %d cleanings, %d tombstones that could go", cleaned, gone)
	}
}
