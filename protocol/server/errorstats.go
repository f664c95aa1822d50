package server

import (
	"cmp"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// ErrorStats is how often one API answered with one error code since the start: for
// the whole request or for a topic, partition or whatever else it names, each
// counted.
type ErrorStats struct {
	Key   int16
	Code  protocol.Code
	Count int64
}

// Errors returns the counts, by API and code; any goroutine. Answers of private
// APIs are not looked into.
func (s *Server) Errors() []ErrorStats {
	var out []ErrorStats
	s.errors.counts.Range(func(k, v any) bool {
		key := k.(errorKey)
		out = append(out, ErrorStats{Key: key.api, Code: key.code, Count: v.(*atomic.Int64).Load()})
		return true
	})
	slices.SortFunc(out, func(a, b ErrorStats) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Code, b.Code))
	})
	return out
}

// errorKey names a counter. Neither part is a client's to choose: there are few.
type errorKey struct {
	api  int16
	code protocol.Code
}

// errorCounts counts errors: rare, so that a map of counters is good enough.
type errorCounts struct {
	counts sync.Map // errorKey: *atomic.Int64
	plans  sync.Map // reflect.Type: *errorPlan
}

func (c *errorCounts) add(key int16, code protocol.Code) {
	if code == protocol.CodeNone {
		return
	}
	k := errorKey{apiKey(apiIndex(key)), code}
	n, ok := c.counts.Load(k)
	if !ok {
		n, _ = c.counts.LoadOrStore(k, new(atomic.Int64))
	}
	n.(*atomic.Int64).Add(1)
}

// count adds the codes of a response. That of Produce, which is answered most
// often, is walked by hand.
func (c *errorCounts) count(key int16, m kmsg.Response) {
	if r, ok := m.(*kmsg.ProduceResponse); ok {
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				c.add(key, r.Topics[i].Partitions[j].ErrorCode)
			}
		}
		return
	}
	v := reflect.ValueOf(m).Elem()
	c.planOf(v.Type()).walk(v, func(code protocol.Code) { c.add(key, code) })
}

// errorPlan says where in a struct there are error codes: in a field of its own
// (-1 if not), and in the elements of lists, or structs, that are fields.
type errorPlan struct {
	code  int
	below []errorField
}

type errorField struct {
	index int
	plan  *errorPlan
}

func (c *errorCounts) planOf(t reflect.Type) *errorPlan {
	if p, ok := c.plans.Load(t); ok {
		return p.(*errorPlan)
	}
	p := &errorPlan{code: -1}
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case !f.IsExported():
		case f.Name == "ErrorCode" && f.Type.Kind() == reflect.Int16:
			p.code = i
		default:
			of := f.Type
			if of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			if of.Kind() != reflect.Struct {
				continue
			}
			if sub := c.planOf(of); sub.code >= 0 || len(sub.below) > 0 {
				p.below = append(p.below, errorField{i, sub})
			}
		}
	}
	c.plans.Store(t, p)
	return p
}

func (p *errorPlan) walk(v reflect.Value, found func(protocol.Code)) {
	if p.code >= 0 {
		if code := v.Field(p.code).Int(); code != 0 {
			found(protocol.Code(code))
		}
	}
	for _, f := range p.below {
		field := v.Field(f.index)
		if field.Kind() != reflect.Slice {
			f.plan.walk(field, found)
			continue
		}
		for i := range field.Len() {
			f.plan.walk(field.Index(i), found)
		}
	}
}
