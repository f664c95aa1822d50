package scrub

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// RetryMs is the time between two tries to verify a segment, in milliseconds, if the
// period is not shorter: one that can't be read now is not read again at once.
const RetryMs = 10 * 60 * 1000

// Key names a segment of a log directory.
type Key struct {
	Replica model.TopicIDPartition
	Base    model.Offset
}

// Segment is a sealed segment as it is now. Size, in bytes, tells it from one that
// compaction has put in its place.
type Segment struct {
	Key
	Size int64
}

// Book knows when each segment was verified. Its owner is one goroutine at a time.
// The zero value knows nothing.
type Book struct {
	entries map[Key]entry
	// pass numbers the calls of Plan.
	pass    uint64
	changed bool
}

// entry is what is known of one segment. Times are wall-clock milliseconds, 0 for
// never.
type entry struct {
	size                  int64
	seen, verified, tried model.Timestamp
	pass                  uint64 // the last Plan that met it
}

// last is when something was last done about it.
func (e *entry) last() model.Timestamp { return max(e.verified, e.tried) }

// Due is what Plan found.
type Due struct {
	// Next are segments to be verified, in order.
	Next []Segment
	// OldestMs is the age of the oldest verification of any segment. Of one that was
	// never verified it counts from when this Book met it first.
	OldestMs int64
}

// Plan returns at most n segments that are to be verified: those whose last
// verification is periodMs ago or more. all are the sealed segments that there are;
// others are forgotten.
func (b *Book) Plan(now model.Timestamp, periodMs int64, all iter.Seq[Segment], n int) Due {
	if b.entries == nil {
		b.entries = make(map[Key]entry)
	}
	b.pass++
	type candidate struct {
		Segment
		last model.Timestamp
	}
	var due Due
	var some []candidate
	for s := range all {
		e, known := b.entries[s.Key]
		if !known || e.size != s.Size {
			e = entry{size: s.Size, seen: now}
		}
		// What lies in the future was noted under another clock, or is garbage.
		if e.verified > now {
			e.verified = 0
		}
		if e.tried > now {
			e.tried = 0
		}
		e.seen = min(e.seen, now)
		e.pass = b.pass
		b.entries[s.Key] = e
		due.OldestMs = max(due.OldestMs, int64(now-max(e.seen, e.verified)))
		if e.verified > 0 && int64(now-e.verified) < periodMs || e.tried > 0 && int64(now-e.tried) < min(RetryMs, periodMs) {
			continue
		}
		some = append(some, candidate{s, e.last()})
	}
	for k, e := range b.entries { // order-free
		if e.pass != b.pass {
			delete(b.entries, k)
			b.changed = true
		}
	}
	slices.SortFunc(some, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.last, y.last), x.Key.compare(y.Key))
	})
	for _, c := range some[:min(n, len(some))] {
		due.Next = append(due.Next, c.Segment)
	}
	return due
}

// compare orders keys, so that segments of one log are verified one after another.
func (k Key) compare(other Key) int {
	return cmp.Or(
		bytes.Compare(k.Replica.TopicID[:], other.Replica.TopicID[:]),
		cmp.Compare(k.Replica.Partition, other.Replica.Partition),
		cmp.Compare(k.Base, other.Base))
}

// Verified notes that a segment was read and found in order.
func (b *Book) Verified(s Segment, now model.Timestamp) {
	b.note(s, func(e *entry) { e.verified, e.tried = now, 0 })
	b.changed = true
}

// Tried notes that a segment could not be verified.
func (b *Book) Tried(s Segment, now model.Timestamp) {
	b.note(s, func(e *entry) { e.tried = now })
}

func (b *Book) note(s Segment, change func(e *entry)) {
	e, known := b.entries[s.Key]
	if !known || e.size != s.Size {
		return // it is another one by now
	}
	change(&e)
	b.entries[s.Key] = e
}
