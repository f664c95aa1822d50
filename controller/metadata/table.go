package metadata

import (
	"iter"
	"slices"
)

// chunkMax is how many entries one chunk of a table holds at most. With 64, a
// change in a table of 10,000 entries copies one chunk and some 300 pointers.
const chunkMax = 64

// owner marks what an Edit has already copied and may change in place. It has a
// size so that two of them never share an address.
type owner struct{ _ byte }

// table is a persistent sorted map: a sorted list of sorted chunks. Copying the
// struct copies the map; a change copies the list and the chunk it falls in,
// once per owner. Reads need no lock as long as no owner changes the same copy.
type table[K, V any] struct {
	compare func(a, b K) int
	owner   *owner
	chunks  []*chunk[K, V]
	size    int
}

type chunk[K, V any] struct {
	owner *owner
	keys  []K
	vals  []V
}

func newTable[K, V any](compare func(a, b K) int) table[K, V] {
	return table[K, V]{compare: compare}
}

// locate returns the chunk that k belongs to and its position there.
func (t *table[K, V]) locate(k K) (ci, ki int, found bool) {
	lo, hi := 0, len(t.chunks)
	for lo < hi { // first chunk whose first key is above k
		mid := (lo + hi) / 2
		if t.compare(t.chunks[mid].keys[0], k) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0, 0, false
	}
	keys := t.chunks[lo-1].keys
	a, b := 0, len(keys)
	for a < b { // first key at or above k
		mid := (a + b) / 2
		if t.compare(keys[mid], k) < 0 {
			a = mid + 1
		} else {
			b = mid
		}
	}
	return lo - 1, a, a < len(keys) && t.compare(keys[a], k) == 0
}

// get returns the value under k, or the zero value.
func (t *table[K, V]) get(k K) (v V, ok bool) {
	ci, ki, found := t.locate(k)
	if !found {
		return v, false
	}
	return t.chunks[ci].vals[ki], true
}

// own makes the list and chunk ci writable by o.
func (t *table[K, V]) own(o *owner, ci int) *chunk[K, V] {
	t.ownList(o)
	c := t.chunks[ci]
	if c.owner != o {
		c = &chunk[K, V]{owner: o, keys: grown(c.keys), vals: grown(c.vals)}
		t.chunks[ci] = c
	}
	return c
}

func (t *table[K, V]) ownList(o *owner) {
	if t.owner != o {
		t.owner, t.chunks = o, grown(t.chunks)
	}
}

// grown copies s with room for one more, the common case after a copy.
func grown[T any](s []T) []T { return append(make([]T, 0, len(s)+1), s...) }

// put sets k to v.
func (t *table[K, V]) put(o *owner, k K, v V) {
	if len(t.chunks) == 0 {
		t.ownList(o)
		t.chunks = append(t.chunks, &chunk[K, V]{owner: o, keys: []K{k}, vals: []V{v}})
		t.size = 1
		return
	}
	ci, ki, found := t.locate(k)
	c := t.own(o, ci)
	if found {
		c.vals[ki] = v
		return
	}
	c.keys = slices.Insert(c.keys, ki, k)
	c.vals = slices.Insert(c.vals, ki, v)
	t.size++
	if len(c.keys) <= chunkMax {
		return
	}
	cut := len(c.keys) / 2
	if ci == len(t.chunks)-1 && ki == len(c.keys)-1 {
		cut = len(c.keys) - 1 // rising keys fill chunks whole
	}
	right := &chunk[K, V]{owner: o, keys: slices.Clone(c.keys[cut:]), vals: slices.Clone(c.vals[cut:])}
	c.keys, c.vals = slices.Delete(c.keys, cut, len(c.keys)), slices.Delete(c.vals, cut, len(c.vals))
	t.chunks = slices.Insert(t.chunks, ci+1, right)
}

// remove deletes k and reports whether it was there.
func (t *table[K, V]) remove(o *owner, k K) bool {
	ci, ki, found := t.locate(k)
	if !found {
		return false
	}
	c := t.own(o, ci)
	c.keys, c.vals = slices.Delete(c.keys, ki, ki+1), slices.Delete(c.vals, ki, ki+1)
	t.size--
	switch {
	case len(c.keys) == 0:
		t.chunks = slices.Delete(t.chunks, ci, ci+1)
	case ci+1 < len(t.chunks) && len(c.keys)+len(t.chunks[ci+1].keys) <= chunkMax/2:
		next := t.chunks[ci+1]
		c.keys, c.vals = append(c.keys, next.keys...), append(c.vals, next.vals...)
		t.chunks = slices.Delete(t.chunks, ci+1, ci+2)
	}
	return true
}

// all yields the entries in key order.
func (t *table[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, c := range t.chunks {
			for i, k := range c.keys {
				if !yield(k, c.vals[i]) {
					return
				}
			}
		}
	}
}

// from yields the entries at or above k in key order.
func (t *table[K, V]) from(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		ci, ki, _ := t.locate(k)
		for ; ci < len(t.chunks); ci, ki = ci+1, 0 {
			c := t.chunks[ci]
			for ; ki < len(c.keys); ki++ {
				if !yield(c.keys[ki], c.vals[ki]) {
					return
				}
			}
		}
	}
}
