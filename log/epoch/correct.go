package epoch

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// Reign is what batches that follow each other say of one epoch.
type Reign struct {
	Epoch model.LeaderEpoch
	// First is the base offset of its first batch. After is where the batch before
	// that ends, or where the range of the log begins that was looked at: no batch
	// lies in [After, First), which compaction may have emptied.
	First, After model.Offset
}

// Correct makes the cache say of a range of the log what its batches say, and
// reports whether it does then. seen are the reigns in that range, oldest first, and
// end is where its last batch ends. What the cache says of other offsets stays: of
// what lies before, of what lies behind, and at the log's end of an epoch in which
// nothing was written yet. Where a reign begins that the cache is right about stays
// too, also in front of the first batch that is left of it; of any other it is the
// lowest offset that the batches allow, so that nobody who compares its log with this
// one keeps too much. The cache is unchanged if what seen says does not rise, or
// does not fit in with what stays.
func (c *Cache) Correct(seen []Reign, end model.Offset) bool {
	if len(seen) == 0 {
		return false
	}
	var fixed []Entry
	first := seen[0]
	if e, ok := c.EpochFor(first.First); ok && e == first.Epoch {
		fixed = append(fixed, c.upTo(first.First+1)...)
		seen = seen[1:]
	} else {
		fixed = append(fixed, c.upTo(first.After)...)
	}
	for _, r := range seen {
		start := r.After
		if e, ok := c.entry(r.Epoch); ok && e.Start >= r.After && e.Start <= r.First {
			start = e.Start
		}
		fixed = append(fixed, Entry{Epoch: r.Epoch, Start: start})
	}
	for _, e := range c.entries {
		if e.Start >= end {
			fixed = append(fixed, e)
		}
	}
	if _, err := New(fixed); err != nil {
		return false
	}
	if !slices.Equal(fixed, c.entries) {
		c.entries = fixed
		c.version++
	}
	return true
}

// upTo returns the entries that begin below o.
func (c *Cache) upTo(o model.Offset) []Entry {
	n := 0
	for n < len(c.entries) && c.entries[n].Start < o {
		n++
	}
	return c.entries[:n]
}

// entry returns the entry of an epoch.
func (c *Cache) entry(e model.LeaderEpoch) (Entry, bool) {
	i, ok := slices.BinarySearchFunc(c.entries, e, func(a Entry, e model.LeaderEpoch) int { return int(a.Epoch) - int(e) })
	if !ok {
		return Entry{}, false
	}
	return c.entries[i], true
}
