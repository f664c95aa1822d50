package faultfs

import (
	"fmt"
	"sync/atomic"
)

// Injector says what goes wrong with an operation. Decide is called once for
// each, before it, from any goroutine; nil lets it be.
type Injector interface {
	Decide(op Op) *Fault
	fmt.Stringer
}

// None injects nothing.
func None() Injector { return injector{func(Op) *Fault { return nil }, "(none)"} }

// injector is a function with its printed form.
type injector struct {
	decide func(op Op) *Fault
	text   string
}

func (i injector) Decide(op Op) *Fault { return i.decide(op) }
func (i injector) String() string      { return i.text }

// When has fault happen to every operation that p matches.
func When(p Predicate, fault *Fault) Injector {
	return injector{func(op Op) *Fault {
		if p.Match(op) {
			return fault
		}
		return nil
	}, fmt.Sprintf("(when %s %s)", p, fault)}
}

// First asks each injector and lets the first that has a fault decide. All are
// asked each time, so that what they count does not depend on the others.
func First(list ...Injector) Injector {
	return injector{func(op Op) *Fault {
		var chosen *Fault
		for _, i := range list {
			if f := i.Decide(op); f != nil && chosen == nil {
				chosen = f
			}
		}
		return chosen
	}, join("first", list)}
}

// Toggle passes operations to an Injector only while it is on. It starts off.
type Toggle struct {
	on    atomic.Bool
	inner Injector
}

// NewToggle returns a switch in front of inner.
func NewToggle(inner Injector) *Toggle { return &Toggle{inner: inner} }

// On lets operations through to the injector.
func (t *Toggle) On() { t.on.Store(true) }

// Off keeps them from it.
func (t *Toggle) Off() { t.on.Store(false) }

// Decide asks the injector if the switch is on.
func (t *Toggle) Decide(op Op) *Fault {
	if !t.on.Load() {
		return nil
	}
	return t.inner.Decide(op)
}

// String renders the switch and what stands behind it.
func (t *Toggle) String() string { return "(toggle " + t.inner.String() + ")" }

// Counter is an Injector that injects nothing and counts what a predicate
// matches: the number of points at which a test may then fail or crash.
type Counter struct {
	n atomic.Int64
	p Predicate
}

// NewCounter counts what p matches.
func NewCounter(p Predicate) *Counter { return &Counter{p: p} }

// Count returns how many operations matched so far.
func (c *Counter) Count() int64 { return c.n.Load() }

// Decide counts.
func (c *Counter) Decide(op Op) *Fault {
	if c.p.Match(op) {
		c.n.Add(1)
	}
	return nil
}

// String renders the predicate and the count.
func (c *Counter) String() string { return fmt.Sprintf("(count %s %d)", c.p, c.Count()) }
