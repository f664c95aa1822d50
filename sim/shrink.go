package sim

import (
	"fmt"
	"io"
	"slices"
)

// Shrink looks for a simpler way to the same broken invariant: it leaves out one
// kind of fault after another, then acts of the nemesis, many at once and fewer
// and fewer, as long as the run still fails so. What it tries goes to out. It
// returns the simplest options and what the run with them ends with; nil if the
// first one doesn't fail.
func Shrink(o Options, out io.Writer) (Options, *Failure) {
	s := shrinking{out: out, o: o}
	var acts [kindCount]uint64
	if s.failure, acts = s.run(&o); s.failure == nil {
		return o, nil
	}
	fmt.Fprintf(out, "%s\n", s.failure.Error())
	for _, k := range Kinds() {
		try := s.o
		try.Without = append(slices.Clone(s.o.Without), k)
		if s.try(&try) {
			fmt.Fprintf(out, "without %s: %s\n", k, s.failure.Error())
		}
	}
	for _, k := range Kinds() {
		if !slices.Contains(s.o.Without, k) && acts[k] > 0 {
			s.acts(Span{k, 1, acts[k]})
		}
	}
	return s.o, s.failure
}

// shrinking is the simplest run so far that fails.
type shrinking struct {
	out     io.Writer
	o       Options
	failure *Failure
}

// try runs a simpler world and keeps it if it fails in the same way.
func (s *shrinking) try(o *Options) bool {
	f, _ := s.run(o)
	if f == nil || f.Invariant != s.failure.Invariant || f.Event > s.failure.Event*2 {
		return false
	}
	s.o, s.failure = *o, f
	return true
}

// run returns what a run ends with, and how many acts of each kind it had.
func (s *shrinking) run(o *Options) (*Failure, [kindCount]uint64) {
	r := Run(*o, nil)
	return r.Failure, r.Acts
}

// acts leaves out the acts of a span, or those of its halves.
func (s *shrinking) acts(span Span) {
	try := s.o
	try.Skip = append(slices.Clone(s.o.Skip), span)
	switch {
	case s.try(&try):
		fmt.Fprintf(s.out, "without %s: %s\n", span, s.failure.Error())
	case span.First < span.Last:
		middle := span.First + (span.Last-span.First)/2
		s.acts(Span{span.Kind, span.First, middle})
		s.acts(Span{span.Kind, middle + 1, span.Last})
	}
}
