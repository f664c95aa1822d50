package integration

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// The checker: what clients asked, what they were told and what they read, and
// what of it can't be. After Jepsen's queue workload for Kafka. It shares no
// code with the broker.

// outcome is what a producer was told of a record.
type outcome uint8

const (
	unknown  outcome = iota // nothing, or an error after which it may be stored
	acked                   // stored at an offset
	rejected                // an error that says it was not stored
)

// send is one record from a producer's hand to the answer. Times are since the
// history began.
type send struct {
	p          tp
	s          stamp
	began      time.Duration
	ended      time.Duration // of an answer
	what       outcome
	offset     int64 // if acked
	idempotent bool
}

// poll is one record that a consumer was handed.
type poll struct {
	p      tp
	offset int64
	s      stamp
	broken string // the value is nobody's
}

// history is all of it. The methods that note may be called from any goroutine.
type history struct {
	mu     sync.Mutex
	start  time.Time
	sends  []*send
	polls  map[string][]poll // by consumer, in its order
	finals map[tp][]poll     // the last read, from the start to an end asked for after healing
}

func newHistory() *history {
	return &history{start: time.Now(), polls: map[string][]poll{}, finals: map[tp][]poll{}}
}

// begin notes a record that is about to be sent.
func (h *history) begin(p tp, s stamp, idempotent bool) *send {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := &send{p: p, s: s, idempotent: idempotent, began: time.Since(h.start)}
	h.sends = append(h.sends, x)
	return x
}

// end notes what came of it.
func (h *history) end(x *send, what outcome, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.ended, x.what, x.offset = time.Since(h.start), what, offset
}

// polled notes what a consumer was handed.
func (h *history) polled(consumer string, p poll) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.polls[consumer] = append(h.polls[consumer], p)
}

// anomaly is something that must not be.
type anomaly struct {
	kind string
	what string
}

// Kinds of anomalies.
const (
	inconsistent = "inconsistent-offset" // two records at one offset
	lost         = "lost"                // acknowledged, and not there at the end
	vanished     = "vanished"            // read once, and not there at the end
	duplicate    = "duplicate"           // an idempotent record at two offsets
	reordered    = "reordered"           // a producer's records in another order
	realTime     = "real-time"           // stored below one that was acknowledged before it was sent
	phantom      = "phantom"             // read, and sent by nobody
	rejectedRead = "rejected-read"       // read, though its producer was told it is not stored
	backwards    = "backwards"           // a consumer's offsets went back
	skipped      = "skipped"             // a consumer left out what is there
	gap          = "gap"                 // an offset without a record
	noOffset     = "no-offset"           // acknowledged at an offset that is none
)

// found collects anomalies.
type found struct{ all []anomaly }

func (f *found) add(kind, format string, args ...any) {
	f.all = append(f.all, anomaly{kind, fmt.Sprintf(format, args...)})
}

// counted says how many of each kind there are, and shows the first few.
func counted(all []anomaly) string {
	var b strings.Builder
	shown := map[string]int{}
	for _, a := range all {
		if shown[a.kind]++; shown[a.kind] <= 3 {
			fmt.Fprintf(&b, "%s: %s\n", a.kind, a.what)
		}
	}
	kinds := make([]string, 0, len(shown))
	for k := range shown {
		kinds = append(kinds, fmt.Sprintf("%d %s", shown[k], k))
	}
	slices.Sort(kinds)
	return b.String() + strings.Join(kinds, ", ")
}

// check looks for anomalies. Duplicates of records that were not sent by an
// idempotent producer are counted, not blamed.
func (h *history) check() (bad []anomaly, duplicates int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &found{}
	sent := map[tp]map[stamp]*send{}
	for _, x := range h.sends {
		if sent[x.p] == nil {
			sent[x.p] = map[stamp]*send{}
		}
		sent[x.p][x.s] = x
	}
	version := h.versionOrder(f)
	for p, final := range h.finals {
		duplicates += checkFinal(f, p, final, sent[p])
		h.checkOrder(f, p)
	}
	h.checkPolls(f, sent, version)
	return f.all, duplicates
}

// versionOrder is the record at each offset, by whoever knows it.
func (h *history) versionOrder(f *found) map[tp]map[int64]stamp {
	version := map[tp]map[int64]stamp{}
	see := func(who string, p tp, offset int64, s stamp) {
		if version[p] == nil {
			version[p] = map[int64]stamp{}
		}
		if other, ok := version[p][offset]; ok && other != s {
			f.add(inconsistent, "%v offset %d: %s has %v, others %v", p, offset, who, s, other)
			return
		}
		version[p][offset] = s
	}
	for p, final := range h.finals {
		for _, r := range final {
			if r.broken == "" {
				see("the last read", p, r.offset, r.s)
			}
		}
	}
	for _, x := range h.sends {
		if x.what != acked {
			continue
		}
		if x.offset < 0 {
			f.add(noOffset, "%v %v was acknowledged at offset %d", x.p, x.s, x.offset)
			continue
		}
		see("an acknowledgement", x.p, x.offset, x.s)
	}
	for consumer, polls := range h.polls {
		for _, r := range polls {
			if r.broken == "" {
				see("consumer "+consumer, r.p, r.offset, r.s)
			}
		}
	}
	return version
}

// checkFinal holds a partition's last read against what was sent.
func checkFinal(f *found, p tp, final []poll, sent map[stamp]*send) (duplicates int) {
	at := map[stamp][]int64{}
	last := map[int32]int64{} // producer → its greatest number so far
	for i, r := range final {
		if i > 0 && r.offset <= final[i-1].offset {
			f.add(backwards, "%v: the last read has offset %d after %d", p, r.offset, final[i-1].offset)
		} else if i > 0 && r.offset != final[i-1].offset+1 {
			f.add(gap, "%v: offset %d follows %d", p, r.offset, final[i-1].offset)
		}
		x := sent[r.s]
		switch {
		case r.broken != "":
			f.add(phantom, "%v offset %d: %s", p, r.offset, r.broken)
			continue
		case x == nil:
			f.add(phantom, "%v offset %d: nobody sent %v", p, r.offset, r.s)
			continue
		case x.what == rejected:
			f.add(rejectedRead, "%v offset %d: %v was refused to its producer", p, r.offset, r.s)
		}
		if first := at[r.s]; len(first) > 0 {
			duplicates++
			if x.idempotent {
				f.add(duplicate, "%v: %v at offsets %d and %d", p, r.s, first[0], r.offset)
			}
		} else {
			if top, ok := last[r.s.producer]; ok && r.s.seq < top && x.idempotent {
				f.add(reordered, "%v offset %d: %v after number %d", p, r.offset, r.s, top)
			}
			last[r.s.producer] = max(last[r.s.producer], r.s.seq)
		}
		at[r.s] = append(at[r.s], r.offset)
	}
	for s, x := range sent {
		switch {
		case x.what != acked:
		case len(at[s]) == 0:
			f.add(lost, "%v: %v was acknowledged at offset %d", p, s, x.offset)
		case x.offset >= 0 && !slices.Contains(at[s], x.offset):
			f.add(inconsistent, "%v: %v was acknowledged at offset %d and is at %v", p, s, x.offset, at[s])
		}
	}
	return duplicates
}

// checkOrder holds the acknowledged offsets of a partition against each other
// and against the clock.
func (h *history) checkOrder(f *found, p tp) {
	var ok []*send
	for _, x := range h.sends {
		if x.p == p && x.what == acked && x.offset >= 0 {
			ok = append(ok, x)
		}
	}
	// Of one producer, in the order sent.
	slices.SortFunc(ok, func(a, b *send) int {
		return cmp.Or(cmp.Compare(a.s.producer, b.s.producer), cmp.Compare(a.s.seq, b.s.seq))
	})
	for i := 1; i < len(ok); i++ {
		if a, b := ok[i-1], ok[i]; a.s.producer == b.s.producer && b.offset <= a.offset && b.idempotent {
			f.add(reordered, "%v: %v at %d, then %v at %d", p, a.s, a.offset, b.s, b.offset)
		}
	}
	// Of all: what began after another was acknowledged lies above it.
	byBegin := slices.Clone(ok)
	slices.SortFunc(byBegin, func(a, b *send) int { return cmp.Compare(a.began, b.began) })
	slices.SortFunc(ok, func(a, b *send) int { return cmp.Compare(a.ended, b.ended) })
	known, top := 0, int64(-1)
	for _, x := range byBegin {
		for known < len(ok) && ok[known].ended < x.began {
			top = max(top, ok[known].offset)
			known++
		}
		if x.offset <= top && x.idempotent {
			f.add(realTime, "%v: %v at %d was sent after offset %d was acknowledged", p, x.s, x.offset, top)
		}
	}
}

// checkPolls holds each consumer's way through a partition against what is
// there.
func (h *history) checkPolls(f *found, sent map[tp]map[stamp]*send, version map[tp]map[int64]stamp) {
	for consumer, polls := range h.polls {
		last := map[tp]int64{}
		for _, r := range polls {
			prev, seen := last[r.p]
			last[r.p] = r.offset
			switch x := sent[r.p][r.s]; {
			case r.broken != "":
				f.add(phantom, "%v offset %d, consumer %s: %s", r.p, r.offset, consumer, r.broken)
			case x == nil:
				f.add(phantom, "%v offset %d, consumer %s: nobody sent %v", r.p, r.offset, consumer, r.s)
			case x.what == rejected:
				f.add(rejectedRead, "%v offset %d, consumer %s: %v was refused to its producer", r.p, r.offset, consumer, r.s)
			}
			if final, ok := h.finals[r.p]; ok && !has(final, r.offset) {
				f.add(vanished, "%v offset %d: consumer %s read %v", r.p, r.offset, consumer, r.s)
			}
			if !seen {
				continue
			}
			if r.offset <= prev {
				f.add(backwards, "%v: consumer %s had offset %d after %d", r.p, consumer, r.offset, prev)
			}
			for o := prev + 1; o < r.offset; o++ {
				if s, there := version[r.p][o]; there {
					f.add(skipped, "%v: consumer %s went from %d to %d past %v", r.p, consumer, prev, r.offset, s)
					break
				}
			}
		}
	}
}

// has reports whether a read has a record at an offset.
func has(final []poll, offset int64) bool {
	_, ok := slices.BinarySearchFunc(final, offset, func(r poll, o int64) int { return cmp.Compare(r.offset, o) })
	return ok
}
