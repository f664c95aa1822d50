package integration

import (
	"encoding/binary"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is known of one partition of an endurance, and what of it can't be. It
// goes by what clients were told and shown, and shares no code with the broker.

// policy is what may become of a partition's records.
type policy int

const (
	keeps    policy = iota // everything for ever
	expires                // what is older than a retention goes
	trims                  // what DeleteRecords took goes
	compacts               // what a newer record of the same key replaces goes
)

// dispatch is one record in a producer's hands. Its number among those of that
// producer for that partition is in its stamp.
type dispatch struct {
	s          stamp
	key        string
	gone       bool // a tombstone
	idempotent bool
	at         time.Time // its timestamp
	offset     int64     // once acknowledged; -1 before
}

// trail is a partition's.
type trail struct {
	p      tp
	policy policy
	keep   time.Duration // of expires

	mu      sync.Mutex
	sent    map[stamp]*dispatch
	acked   map[int64]*dispatch  // by offset
	top     int64                // greatest acknowledged offset; -1 is none
	seen    map[int64]stamp      // by offset: what any reader was handed
	newest  map[string]*dispatch // of a key, of those acknowledged
	last    map[string]*dispatch // of a key, of those sent
	tombs   map[string]int64     // of a key: the number of the last tombstone sent
	start   int64                // greatest log start that was told
	trimmed int64                // greatest DeleteRecords that was acknowledged
	wanted  int64                // and that was asked for
	tail    *pass                // the reading that goes on from check to check
	twice   int                  // records of plain producers that were stored again
	found   found
}

func newTrail(p tp, policy policy, keep time.Duration) *trail {
	t := &trail{p: p, policy: policy, keep: keep, top: -1, sent: map[stamp]*dispatch{}, acked: map[int64]*dispatch{},
		seen: map[int64]stamp{}, newest: map[string]*dispatch{}, last: map[string]*dispatch{}, tombs: map[string]int64{}}
	t.tail = t.newPass(0)
	return t
}

// sending notes a record that is about to be sent.
func (t *trail) sending(d *dispatch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d.offset = -1
	t.sent[d.s] = d
	if d.key != "" {
		t.last[d.key] = d
		if d.gone {
			t.tombs[d.key] = d.s.seq
		}
	}
}

// told notes an acknowledgement.
func (t *trail) told(d *dispatch, offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d.offset = offset
	if offset < 0 {
		t.found.add(noOffset, "%v %v was acknowledged at offset %d", t.p, d.s, offset)
		return
	}
	if other, ok := t.acked[offset]; ok && other != d {
		t.found.add(inconsistent, "%v offset %d was acknowledged for %v and for %v", t.p, offset, other.s, d.s)
	}
	t.acked[offset] = d
	t.top = max(t.top, offset)
	t.see("an acknowledgement", offset, d.s)
	if d.key != "" && (t.newest[d.key] == nil || t.newest[d.key].s.seq < d.s.seq) {
		t.newest[d.key] = d
	}
}

// see notes the record at an offset. The caller holds the lock.
func (t *trail) see(who string, offset int64, s stamp) {
	if other, ok := t.seen[offset]; ok && other != s {
		t.found.add(inconsistent, "%v offset %d: %s has %v, others had %v", t.p, offset, who, s, other)
		return
	}
	t.seen[offset] = s
}

// shown notes a record that a reader was handed and returns whose it is.
func (t *trail) shown(who string, r *kgo.Record) *dispatch {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := motleyOf(r)
	if err != nil {
		t.found.add(phantom, "%v offset %d, %s: %v", t.p, r.Offset, who, err)
		return nil
	}
	d := t.sent[s]
	if d == nil || string(r.Key) != d.key || (r.Value == nil) != d.gone {
		t.found.add(phantom, "%v offset %d, %s: nobody sent %v with key %q", t.p, r.Offset, who, s, r.Key)
		return nil
	}
	t.see(who, r.Offset, s)
	return d
}

// pass is one reading of a partition in order, over as many fetches as it takes.
type pass struct {
	t     *trail
	next  int64
	order map[int32]int64      // the greatest number of each idempotent producer so far
	plain map[stamp]bool       // of the others: seen
	keys  map[string]*dispatch // the last record of each key
	holes int64
	// gaps are ranges without a record that somebody has to explain: low, high.
	gaps [][2]int64
}

func (t *trail) newPass(from int64) *pass {
	return &pass{t: t, next: from, order: map[int32]int64{}, plain: map[stamp]bool{}, keys: map[string]*dispatch{}}
}

// take is the next record.
func (x *pass) take(r *kgo.Record) {
	t := x.t
	d := t.shown("a check", r)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.Offset < x.next:
		t.found.add(backwards, "%v: offset %d where %d was expected", t.p, r.Offset, x.next)
	case r.Offset > x.next:
		x.holes += r.Offset - x.next
		if t.policy != compacts {
			x.gaps = append(x.gaps, [2]int64{x.next, r.Offset})
		}
	}
	x.next = r.Offset + 1
	if d == nil {
		return
	}
	if d.key != "" {
		x.keys[d.key] = d
	}
	if !d.idempotent {
		if x.plain[d.s] {
			t.twice++
		}
		x.plain[d.s] = true
		return
	}
	if top, ok := x.order[d.s.producer]; ok && d.s.seq <= top {
		kind := reordered
		if d.s.seq == top {
			kind = duplicate
		}
		t.found.add(kind, "%v offset %d: %v behind number %d", t.p, r.Offset, d.s, top)
	}
	x.order[d.s.producer] = d.s.seq
}

// pledge is what was acknowledged at a moment.
type pledge struct {
	top, start, trimmed int64
	newest              map[string]*dispatch
}

// pledged is what any answer from now on must agree with.
func (t *trail) pledged() pledge {
	t.mu.Lock()
	defer t.mu.Unlock()
	return pledge{t.top, t.start, t.trimmed, maps.Clone(t.newest)}
}

// bounds holds the bounds that the broker now tells against a pledge.
func (t *trail) bounds(was pledge, start, end int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end <= was.top {
		t.found.add(lost, "%v ends at %d and %d was acknowledged", t.p, end, was.top)
	}
	if end < t.tail.next {
		t.found.add(vanished, "%v ends at %d and was read up to %d", t.p, end, t.tail.next)
	}
	if start < was.start {
		t.found.add(backwards, "%v begins at %d and began at %d before", t.p, start, was.start)
	}
	if start < was.trimmed {
		t.found.add(vanished, "%v begins at %d and everything below %d was deleted", t.p, start, was.trimmed)
	}
	switch {
	case (t.policy == keeps || t.policy == compacts) && start != 0:
		t.found.add(lost, "%v begins at %d", t.p, start)
	case t.policy == trims && start > t.wanted:
		t.found.add(lost, "%v begins at %d, DeleteRecords was asked for %d at most", t.p, start, t.wanted)
	case t.policy == expires:
		for o := was.start; o < start; o++ {
			if d := t.acked[o]; d != nil && now.Sub(d.at) < t.keep {
				t.found.add(lost, "%v: offset %d is gone %s after it was written", t.p, o, now.Sub(d.at).Round(time.Millisecond))
				break
			}
		}
	}
	t.start = max(t.start, start)
}

// settle is the end of a pass: what it found no record for, given where the log
// begins now, and what a compacted log must still hold. quiet says that nothing was
// sent since the pledge.
func (t *trail) settle(x *pass, was pledge, start int64, quiet bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range x.gaps {
		if start < g[1] {
			t.found.add(gap, "%v: no record from %d up to %d, the log begins at %d", t.p, g[0], g[1], start)
		}
	}
	x.gaps = nil
	if t.policy != compacts {
		return
	}
	for key, d := range was.newest {
		now := x.keys[key]
		ok := now != nil && now.s.seq >= d.s.seq
		if now == nil {
			// A tombstone goes some day, and before it what it deletes.
			tomb, deleted := t.tombs[key]
			ok = deleted && tomb >= d.s.seq
		}
		if !ok && !quiet {
			// A record that was sent meanwhile may have replaced it before it was read.
			ok = t.last[key] != d || d.gone
		}
		if !ok {
			t.found.add(lost, "%v: key %q has %+v, and %+v was acknowledged", t.p, key, now, d)
		}
	}
}

// The header that carries a record's stamp: a tombstone has no value.
const stampHeader = "stamp"

// motley is a record whose value compresses a little. A size below zero is a
// tombstone.
func motley(p tp, s stamp, key string, size int) *kgo.Record {
	r := &kgo.Record{Topic: p.topic, Partition: p.n, Headers: []kgo.RecordHeader{{Key: stampHeader, Value: s.value(stampSize)}}}
	if key != "" {
		r.Key = []byte(key)
	}
	if size >= 0 {
		r.Value = s.filler(size)
	}
	return r
}

// filler is bytes that only this stamp has: words, each of them four times.
func (s stamp) filler(size int) []byte {
	v := make([]byte, size)
	x := uint64(s.seq)*0x9E3779B97F4A7C15 + uint64(s.producer) + 1
	for i := 0; i+32 <= size; i += 32 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		for j := 0; j < 32; j += 8 {
			binary.LittleEndian.PutUint64(v[i+j:], x)
		}
	}
	return v
}

// motleyOf tells whose record it is, and whether its bytes are the ones sent.
func motleyOf(r *kgo.Record) (stamp, error) {
	if len(r.Headers) != 1 || r.Headers[0].Key != stampHeader || len(r.Headers[0].Value) != stampSize {
		return stamp{}, fmt.Errorf("a record without a stamp: headers %v", r.Headers)
	}
	s, err := stampOf(r.Headers[0].Value)
	if err == nil && r.Value != nil && string(s.filler(len(r.Value))) != string(r.Value) {
		err = fmt.Errorf("the bytes of %+v are not what was sent", s)
	}
	return s, err
}
