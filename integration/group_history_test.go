package integration

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// What the members of groups were given, delivered and committed, and what of it
// can't be. It shares no code with the broker.

// spell is the time in which a member has a partition: from the client's word
// that it is assigned to the word that it is so again, or the member's end.
type spell struct {
	group, member string
	p             tp
	began         time.Duration
	fetched       int64 // the committed offset that it found; none, and unasked if it never got so far
	got           []poll
}

const (
	unasked = -2 // the committed offset was not read
	none    = -1 // there was no committed offset
)

// promise is one attempt of a member to commit an offset.
type promise struct {
	of           *spell
	offset       int64
	began, ended time.Duration
	acked        bool // else it may hold or not
}

// groupHistory is all of it. The methods may be called from any goroutine.
type groupHistory struct {
	mu       sync.Mutex
	start    time.Time
	spells   []*spell
	promises []*promise
	events   []happening
}

func newGroupHistory() *groupHistory { return &groupHistory{start: time.Now()} }

// assigned notes that a member has a partition from now on.
func (h *groupHistory) assigned(group, member string, p tp) *spell {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &spell{group: group, member: member, p: p, began: time.Since(h.start), fetched: unasked}
	h.spells = append(h.spells, s)
	return s
}

// found notes the committed offset that a member begins at.
func (h *groupHistory) found(s *spell, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.fetched = max(offset, none)
}

// delivered notes a record in a member's hand.
func (h *groupHistory) delivered(s *spell, r poll) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.got = append(s.got, r)
}

// committing notes that a member is about to commit.
func (h *groupHistory) committing(s *spell, offset int64) *promise {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &promise{of: s, offset: offset, began: time.Since(h.start), ended: 1 << 62}
	h.promises = append(h.promises, c)
	return c
}

// committed notes that a commit was acknowledged.
func (h *groupHistory) committed(c *promise) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.acked, c.ended = true, time.Since(h.start)
}

// commits counts a group's acknowledged commits so far.
func (h *groupHistory) commits(group string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.promises {
		if c.acked && c.of.group == group {
			n++
		}
	}
	return n
}

// Kinds of anomalies of groups.
const (
	commitLost      = "commit-lost"      // a member begins below what was committed before
	commitInvented  = "commit-invented"  // a member finds an offset that nobody committed
	commitRegressed = "commit-regressed" // committed below what was committed before
	startedWrong    = "started-wrong"    // the first record is not that of the committed offset
	groupSkipped    = "group-skipped"    // a record was left out
	groupReordered  = "group-reordered"  // a record again, or an earlier one
	twoOwners       = "two-owners"       // a member commits after its successor did
	undelivered     = "undelivered"      // below the committed offset and in nobody's hand
	wrongEnd        = "wrong-end"        // the last committed offset is not what was committed last
)

// groupPartition is where a group stands in a partition.
type groupPartition struct {
	group string
	p     tp
}

// check looks for anomalies; finals are the groups' committed offsets after all
// members are gone. Records that came twice, because nobody had committed them,
// are counted. where is the partitions that have anomalies.
func (h *groupHistory) check(finals map[groupPartition]int64) (bad []anomaly, duplicates int, where []groupPartition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	spells, promises := map[groupPartition][]*spell{}, map[groupPartition][]*promise{}
	for _, s := range h.spells {
		k := groupPartition{s.group, s.p}
		spells[k] = append(spells[k], s)
	}
	for _, c := range h.promises {
		k := groupPartition{c.of.group, c.of.p}
		promises[k] = append(promises[k], c)
	}
	f := &found{}
	for k, all := range spells {
		before := len(f.all)
		for _, s := range all {
			checkWay(f, s)
		}
		checkStarts(f, all, promises[k])
		checkPromises(f, promises[k])
		final, asked := finals[k]
		if asked {
			checkEnd(f, k, final, promises[k])
		}
		duplicates += checkDelivered(f, k, final, all)
		if len(f.all) > before {
			where = append(where, k)
		}
	}
	return f.all, duplicates, where
}

// checkWay holds a member's way through a partition against the offset that it
// began at: no record is left out, none comes again.
func checkWay(f *found, s *spell) {
	next := max(s.fetched, 0)
	for i, r := range s.got {
		switch {
		case i == 0 && (s.fetched == unasked || r.offset != next):
			f.add(startedWrong, "%s %v, %s: committed %d, the first record is %d", s.group, s.p, s.member, s.fetched, r.offset)
		case r.offset > next:
			f.add(groupSkipped, "%s %v, %s: offset %d comes when %d is due", s.group, s.p, s.member, r.offset, next)
		case r.offset < next:
			f.add(groupReordered, "%s %v, %s: offset %d comes when %d is due", s.group, s.p, s.member, r.offset, next)
		}
		next = r.offset + 1
	}
}

// checkStarts holds the offsets that members began at against the commits before.
func checkStarts(f *found, spells []*spell, promises []*promise) {
	for _, s := range spells {
		if s.fetched == unasked {
			continue
		}
		known := s.fetched == none
		for _, c := range promises {
			if c.acked && c.ended < s.began && s.fetched < c.offset {
				f.add(commitLost, "%s %v: %s found %d though %s had committed %d", s.group, s.p, s.member, s.fetched, c.of.member, c.offset)
				break
			}
		}
		for _, c := range promises {
			known = known || c.offset == s.fetched
		}
		if !known {
			f.add(commitInvented, "%s %v: %s found %d, which nobody has committed", s.group, s.p, s.member, s.fetched)
		}
	}
}

// checkPromises holds the acknowledged commits of a partition against each other.
func checkPromises(f *found, promises []*promise) {
	var acked []*promise
	for _, c := range promises {
		if c.acked {
			acked = append(acked, c)
		}
	}
	byEnd := slices.SortedFunc(slices.Values(acked), func(a, b *promise) int { return cmp.Compare(a.ended, b.ended) })
	byBegin := slices.SortedFunc(slices.Values(acked), func(a, b *promise) int { return cmp.Compare(a.began, b.began) })
	var top, newest *promise // of those that ended before the next begins: the greatest, and the one of the latest spell
	known := 0
	for _, c := range byBegin {
		for ; known < len(byEnd) && byEnd[known].ended < c.began; known++ {
			if x := byEnd[known]; top == nil || x.offset > top.offset {
				top = x
			}
			if x := byEnd[known]; newest == nil || x.of.began > newest.of.began {
				newest = x
			}
		}
		if top != nil && c.offset < top.offset {
			f.add(commitRegressed, "%s %v: %s committed %d after %s had committed %d", c.of.group, c.of.p, c.of.member, c.offset, top.of.member, top.offset)
		}
		if newest != nil && c.of.began < newest.of.began {
			f.add(twoOwners, "%s %v: %s committed %d after its successor %s had committed %d", c.of.group, c.of.p, c.of.member, c.offset, newest.of.member, newest.offset)
		}
	}
}

// checkEnd holds a group's last committed offset against its commits: at least
// the greatest that was acknowledged, and one that somebody asked for.
func checkEnd(f *found, k groupPartition, final int64, promises []*promise) {
	known := final == none
	for _, c := range promises {
		known = known || c.offset == final
		if c.acked && c.offset > final {
			f.add(wrongEnd, "%s %v: %d at the end, %s had committed %d", k.group, k.p, final, c.of.member, c.offset)
			return
		}
	}
	if !known {
		f.add(wrongEnd, "%s %v: %d at the end, which nobody has committed", k.group, k.p, final)
	}
}

// checkDelivered wants each record below the last committed offset in somebody's
// hand, and counts those that came more than once.
func checkDelivered(f *found, k groupPartition, final int64, spells []*spell) (duplicates int) {
	seen := map[int64]bool{}
	for _, s := range spells {
		for _, r := range s.got {
			if seen[r.offset] {
				duplicates++
			}
			seen[r.offset] = true
		}
	}
	missing, first := 0, int64(0)
	for o := int64(0); o < final; o++ {
		if !seen[o] {
			if missing == 0 {
				first = o
			}
			missing++
		}
	}
	if missing > 0 {
		f.add(undelivered, "%s %v: %d records from offset %d on, of %d that are committed", k.group, k.p, missing, first, final)
	}
	return duplicates
}

// into adds what the members were delivered to the history of the records, each
// spell as a consumer of its own.
func (h *groupHistory) into(records *history) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range h.spells {
		for _, r := range s.got {
			records.polled(fmt.Sprintf("%s/%s/%d", s.group, s.member, i), r)
		}
	}
}
