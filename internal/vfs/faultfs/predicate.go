package faultfs

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// Predicate picks operations. Match is called once for each operation that is
// about to be made, from any goroutine; one that counts counts those calls.
type Predicate interface {
	Match(op Op) bool
	fmt.Stringer
}

// predicate is a function with its printed form.
type predicate struct {
	match func(op Op) bool
	text  string
}

func (p predicate) Match(op Op) bool { return p.match(op) }
func (p predicate) String() string   { return p.text }

// Always matches every operation.
func Always() Predicate {
	return predicate{func(Op) bool { return true }, "(always)"}
}

// And matches what all of ps match. It asks them in order and stops at the
// first that does not: a counting predicate put last counts what the others
// let through.
func And(ps ...Predicate) Predicate {
	return predicate{func(op Op) bool {
		for _, p := range ps {
			if !p.Match(op) {
				return false
			}
		}
		return true
	}, join("and", ps)}
}

// Or matches what any of ps matches. It asks them in order and stops at the
// first that does.
func Or(ps ...Predicate) Predicate {
	return predicate{func(op Op) bool {
		for _, p := range ps {
			if p.Match(op) {
				return true
			}
		}
		return false
	}, join("or", ps)}
}

// Not matches what p does not.
func Not(p Predicate) Predicate {
	return predicate{func(op Op) bool { return !p.Match(op) }, "(not " + p.String() + ")"}
}

// OpIn matches operations of any of the kinds.
func OpIn(kinds ...OpKind) Predicate {
	var set uint64
	names := make([]string, len(kinds))
	for i, k := range kinds {
		set |= 1 << k
		names[i] = k.String()
	}
	return predicate{func(op Op) bool { return set&(1<<op.Kind) != 0 }, "(op " + strings.Join(names, " ") + ")"}
}

// Mutations matches operations that change the disk or make a change durable.
func Mutations() Predicate {
	return predicate{func(op Op) bool { return op.Kind.Mutates() }, "(mutations)"}
}

// PathMatch matches operations on a path, or a rename from or to it, that
// filepath.Match accepts. A pattern without a slash is held against the base
// name. A malformed pattern matches nothing.
func PathMatch(pattern string) Predicate {
	one := func(name string) bool {
		if name == "" {
			return false
		}
		if !strings.Contains(pattern, "/") {
			name = filepath.Base(name)
		}
		ok, err := filepath.Match(pattern, filepath.Clean(name))
		return ok && err == nil
	}
	return predicate{func(op Op) bool { return one(op.Path) || one(op.NewPath) }, fmt.Sprintf("(path %q)", pattern)}
}

// Under matches operations on dir or anything below it.
func Under(dir string) Predicate {
	dir = filepath.Clean(dir)
	one := func(name string) bool {
		name = filepath.Clean(name)
		return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	}
	return predicate{func(op Op) bool {
		return one(op.Path) || op.NewPath != "" && one(op.NewPath)
	}, fmt.Sprintf("(under %q)", dir)}
}

// NthOp matches the n-th operation that it is asked about, counted from 1, and
// no other.
func NthOp(n int64) Predicate {
	var count atomic.Int64
	return predicate{func(Op) bool { return count.Add(1) == n }, fmt.Sprintf("(nth %d)", n)}
}

// FromNth matches the n-th operation that it is asked about and all later ones.
func FromNth(n int64) Predicate {
	var count atomic.Int64
	return predicate{func(Op) bool { return count.Add(1) >= n }, fmt.Sprintf("(from %d)", n)}
}

// Randomly matches pct percent of the operations that it is asked about, drawn
// from r. It is the only user of r while operations run at the same time.
func Randomly(r *rand.Rand, pct float64) Predicate {
	var mu sync.Mutex
	return predicate{func(Op) bool {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()*100 < pct
	}, fmt.Sprintf("(randomly %g%%)", pct)}
}

func join[T fmt.Stringer](head string, parts []T) string {
	var b strings.Builder
	b.WriteString("(" + head)
	for _, p := range parts {
		b.WriteString(" " + p.String())
	}
	b.WriteString(")")
	return b.String()
}
