package assign

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// Partition names one partition by its topic's id.
type Partition struct {
	Topic  model.TopicID
	Number int32
}

// Compare orders partitions by topic id, then number.
func Compare(a, b Partition) int {
	if c := bytes.Compare(a.Topic[:], b.Topic[:]); c != 0 {
		return c
	}
	return cmp.Compare(a.Number, b.Number)
}

// Set is a sorted list of partitions without doubles.
type Set []Partition

// SetOf sorts partitions and leaves out doubles. It keeps the slice.
func SetOf(ps []Partition) Set {
	slices.SortFunc(ps, Compare)
	return slices.Compact(ps)
}

// Has reports whether p is in the set.
func (s Set) Has(p Partition) bool {
	_, found := slices.BinarySearchFunc(s, p, Compare)
	return found
}

// Equal reports whether both have the same partitions.
func (s Set) Equal(o Set) bool { return slices.Equal(s, o) }

// Split returns what of s is in o, and what is not.
func (s Set) Split(o Set) (in, out Set) {
	for _, p := range s {
		for len(o) > 0 && Compare(o[0], p) < 0 {
			o = o[1:]
		}
		if len(o) > 0 && o[0] == p {
			in = append(in, p)
		} else {
			out = append(out, p)
		}
	}
	return in, out
}

// Within reports whether all of s is in o.
func (s Set) Within(o Set) bool {
	_, out := s.Split(o)
	return len(out) == 0
}

// Touches reports whether s and o have a partition in common.
func (s Set) Touches(o Set) bool {
	in, _ := s.Split(o)
	return len(in) > 0
}

// Union returns what is in s or in o.
func (s Set) Union(o Set) Set {
	if len(o) == 0 {
		return s
	}
	return SetOf(append(slices.Clone(s), o...))
}
