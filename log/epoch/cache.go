package epoch

import (
	"fmt"
	"slices"
	"sort"

	"github.com/tidemark/tidemark/internal/model"
)

// Entry says that the batches of Epoch begin at Start: the first offset that
// was, or would be, written in that epoch.
type Entry struct {
	Epoch model.LeaderEpoch
	Start model.Offset
}

// Cache maps leader epochs to the offsets they start at. The zero Cache is
// empty and ready for use. Owned by the partition's loop.
type Cache struct {
	// entries strictly rise in Epoch and in Start. Invariant: 2.
	entries []Entry
	// version rises with each change of entries, so that a flusher can tell
	// whether the file still says what the cache says.
	version uint64
}

// New returns a Cache that holds a copy of entries, which come from a file and
// may hold anything: an error names the first entry that is negative or does
// not rise above its predecessor.
func New(entries []Entry) (*Cache, error) {
	for i, e := range entries {
		if e.Epoch < 0 || e.Start < 0 {
			return nil, fmt.Errorf("epoch entry %d is negative: epoch %d at offset %d", i, e.Epoch, e.Start)
		}
		if i == 0 {
			continue
		}
		if p := entries[i-1]; e.Epoch <= p.Epoch || e.Start <= p.Start {
			return nil, fmt.Errorf("epoch entry %d does not rise: epoch %d at offset %d after epoch %d at offset %d",
				i, e.Epoch, e.Start, p.Epoch, p.Start)
		}
	}
	return &Cache{entries: slices.Clone(entries)}, nil
}

// Assign notes that epoch e starts at start and reports whether the cache
// changed. A later start of the latest epoch says nothing new. Otherwise the
// entries that contradict it (an epoch not below e, or a start not below
// start) are dropped first: they describe a future that no longer exists, or
// an epoch in which nothing was written.
//
// A negative epoch or offset names no reign and changes nothing; batches of
// peers may carry -1, so that this is no broken assertion.
func (c *Cache) Assign(e model.LeaderEpoch, start model.Offset) (changed bool) {
	if e < 0 || start < 0 {
		return false
	}
	keep := len(c.entries)
	if keep > 0 {
		last := c.entries[keep-1]
		if last.Epoch == e && last.Start <= start {
			return false
		}
	}
	for keep > 0 && (c.entries[keep-1].Epoch >= e || c.entries[keep-1].Start >= start) {
		keep--
	}
	c.entries = append(c.entries[:keep], Entry{Epoch: e, Start: start})
	c.version++
	return true
}

// EndOffsetFor returns the largest epoch not above e that this log knows, and
// the offset at which it ends. leo is the log end offset, where the latest
// epoch ends.
//
//   - e is the latest epoch: (e, leo).
//   - e is newer than all, the cache is empty, or e is NoEpoch: (NoEpoch,
//     NoOffset), this log can say nothing.
//   - e is older than all: (e, start of the first epoch). The asked epoch is
//     echoed, as in Kafka; it ended here or earlier.
//   - else: the floor epoch and the start of the first epoch above e.
func (c *Cache) EndOffsetFor(e model.LeaderEpoch, leo model.Offset) model.OffsetAndEpoch {
	unknown := model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch}
	n := len(c.entries)
	if e == model.NoEpoch || n == 0 {
		return unknown
	}
	if c.entries[n-1].Epoch == e {
		return model.OffsetAndEpoch{Offset: leo, Epoch: e}
	}
	above := c.above(e)
	switch above {
	case n:
		return unknown
	case 0:
		return model.OffsetAndEpoch{Offset: c.entries[0].Start, Epoch: e}
	}
	return model.OffsetAndEpoch{Offset: c.entries[above].Start, Epoch: c.entries[above-1].Epoch}
}

// EpochFor returns the epoch in which a batch at offset o was, or would be,
// written; false if o lies before the first entry.
func (c *Cache) EpochFor(o model.Offset) (model.LeaderEpoch, bool) {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start > o })
	if i == 0 {
		return model.NoEpoch, false
	}
	return c.entries[i-1].Epoch, true
}

// TruncateFromEnd forgets every epoch that starts at or above o, the new log
// end, and reports whether there was one. It must be called for each
// truncation, also one that removes no record: an epoch in which nothing was
// written starts at the log end, and has to go (KIP-101, empty epochs).
func (c *Cache) TruncateFromEnd(o model.Offset) (changed bool) {
	keep := len(c.entries)
	for keep > 0 && c.entries[keep-1].Start >= o {
		keep--
	}
	if keep == len(c.entries) {
		return false
	}
	c.entries = c.entries[:keep]
	c.version++
	return true
}

// TruncateFromStart forgets what lies below o, the new log start, and reports
// whether anything changed. The epoch that covers o stays and now starts at o.
func (c *Cache) TruncateFromStart(o model.Offset) (changed bool) {
	drop := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Start > o })
	if drop == 0 {
		return false
	}
	if drop == 1 && c.entries[0].Start == o {
		return false
	}
	covering := Entry{Epoch: c.entries[drop-1].Epoch, Start: o}
	c.entries = slices.Delete(c.entries, 0, drop-1)
	c.entries[0] = covering
	c.version++
	return true
}

// Clear forgets all epochs: the log was emptied and starts elsewhere.
func (c *Cache) Clear() (changed bool) {
	if len(c.entries) == 0 {
		return false
	}
	c.entries = c.entries[:0]
	c.version++
	return true
}

// Latest returns the newest entry.
func (c *Cache) Latest() (Entry, bool) {
	if len(c.entries) == 0 {
		return Entry{Epoch: model.NoEpoch, Start: model.NoOffset}, false
	}
	return c.entries[len(c.entries)-1], true
}

// LatestEpoch returns the newest epoch, or NoEpoch: what a follower sends as
// lastFetchedEpoch.
func (c *Cache) LatestEpoch() model.LeaderEpoch {
	latest, _ := c.Latest()
	return latest.Epoch
}

// Earliest returns the oldest entry.
func (c *Cache) Earliest() (Entry, bool) {
	if len(c.entries) == 0 {
		return Entry{Epoch: model.NoEpoch, Start: model.NoOffset}, false
	}
	return c.entries[0], true
}

// Previous returns the newest entry of an epoch below e.
func (c *Cache) Previous(e model.LeaderEpoch) (Entry, bool) {
	i := sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Epoch >= e })
	if i == 0 {
		return Entry{Epoch: model.NoEpoch, Start: model.NoOffset}, false
	}
	return c.entries[i-1], true
}

// Entries returns a copy of all entries, oldest first.
func (c *Cache) Entries() []Entry { return slices.Clone(c.entries) }

// Len returns the number of known epochs.
func (c *Cache) Len() int { return len(c.entries) }

// Version rises with each change. It starts at 0 for a new Cache and means
// nothing between processes.
func (c *Cache) Version() uint64 { return c.version }

// Clone returns a Cache with the same entries and version that shares nothing
// with c.
func (c *Cache) Clone() *Cache {
	return &Cache{entries: slices.Clone(c.entries), version: c.version}
}

// above returns the index of the first entry of an epoch above e.
func (c *Cache) above(e model.LeaderEpoch) int {
	return sort.Search(len(c.entries), func(i int) bool { return c.entries[i].Epoch > e })
}
