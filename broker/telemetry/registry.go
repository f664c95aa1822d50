package telemetry

import (
	"container/list"
	"time"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/compress"
)

// InstanceID names one life of one client. The protocol's zero and one name none.
type InstanceID = model.TopicID

// forgetAfter is how long an instance is remembered at least; it is three of its
// push intervals if those are longer.
const forgetAfter = model.Instant(time.Minute)

// sweepEvery is how often all instances are looked at for old ones.
const sweepEvery = model.Instant(10 * time.Second)

// Config is what a Registry is made of.
type Config struct {
	// BytesMax bounds the metrics of one push (telemetry.max.bytes).
	BytesMax int
	// InstancesMax bounds the instances; the one unheard for longest gives way.
	InstancesMax int
	// NewID draws the id of a client that has none yet.
	NewID func() InstanceID
}

// Client is who sent a request, by attribute; a nil attribute is unknown and
// matches nothing.
type Client [config.ClientAttributes]*string

// Subscription is what a client is asked for.
type Subscription struct {
	Instance InstanceID
	// ID changes with what is asked for.
	ID       int32
	Metrics  []string // sorted; shared, read only
	Interval time.Duration
}

// Push is a client's metrics, but for their bytes.
type Push struct {
	Instance    InstanceID
	ID          int32 // of the subscription that it answers
	Terminating bool  // the client's last
	Codec       int8
	Bytes       int
}

// Counts is what a Registry has seen. All but the first two only grow.
type Counts struct {
	Instances, Subscriptions int64
	// Pushes and Bytes are what was taken, Last those pushes that were a client's
	// last.
	Pushes, Bytes, Last int64
	// Unknown is pushes for a subscription that is none, Throttled requests before
	// their time, Refused all others that were.
	Unknown, Throttled, Refused int64
	// Forgotten is instances unheard for too long, Displaced those that gave way to
	// others.
	Forgotten, Displaced int64
}

// Registry remembers client instances. Its methods are for one caller at a time.
type Registry struct {
	cfg       Config
	asked     asked
	version   int64 // of asked
	instances map[InstanceID]*list.Element
	heard     list.List // of *instance, the one heard of last in front
	sweptAt   model.Instant
	counts    Counts
}

// instance is what is remembered of a client. A change of the subscriptions makes it
// a new one.
type instance struct {
	id      InstanceID
	ask     *ask
	subID   int32
	version int64
	forget  model.Instant // when it is too long unheard

	got, pushed     bool // ever
	gotAt, pushedAt model.Instant
	terminated      bool
	last            protocol.Code // how the last request ended
}

// New returns a Registry without subscriptions.
func New(c Config) *Registry {
	return &Registry{cfg: c, instances: map[InstanceID]*list.Element{}}
}

// Subscribe replaces all subscriptions, named by their resources.
func (r *Registry) Subscribe(subs map[string]config.ClientMetrics) {
	r.asked = newAsked(subs)
	r.version++
}

// Get handles GetTelemetrySubscriptions. An id that is none asks for a new one.
func (r *Registry) Get(now model.Instant, id InstanceID, c *Client) (Subscription, protocol.Code) {
	if reserved(id) {
		for id = r.cfg.NewID(); reserved(id) || r.instances[id] != nil; {
			id = r.cfg.NewID()
		}
	}
	i := r.find(now, id, c)
	early := i.got && now-i.gotAt < i.interval() || i.pushed && now-i.pushedAt < i.interval()
	if early && i.last != protocol.CodeUnknownSubscriptionID && i.last != protocol.CodeUnsupportedCompressionType {
		r.counts.Throttled++
		return Subscription{}, protocol.CodeThrottlingQuotaExceeded
	}
	if !early {
		i.got, i.gotAt = true, now
	}
	i.last = protocol.CodeNone
	return Subscription{Instance: id, ID: i.subID, Metrics: i.ask.metrics, Interval: i.ask.interval}, protocol.CodeNone
}

// Push handles PushTelemetry.
func (r *Registry) Push(now model.Instant, p Push, c *Client) protocol.Code {
	if reserved(p.Instance) {
		r.counts.Refused++
		return protocol.CodeInvalidRequest
	}
	i := r.find(now, p.Instance, c)
	i.last = r.check(i, now, p)
	i.terminated = p.Terminating
	switch i.last {
	case protocol.CodeNone:
		r.counts.Pushes++
		r.counts.Bytes += int64(p.Bytes)
		if p.Terminating {
			r.counts.Last++
		}
	case protocol.CodeUnknownSubscriptionID:
		r.counts.Unknown++
	case protocol.CodeThrottlingQuotaExceeded:
		r.counts.Throttled++
	default:
		r.counts.Refused++
	}
	return i.last
}

// check returns what is wrong with a push, in Kafka's order.
func (r *Registry) check(i *instance, now model.Instant, p Push) protocol.Code {
	if i.terminated {
		return protocol.CodeInvalidRequest
	}
	// After a get that was in time the last push is old enough as well: the next
	// may come at once, which is how clients spread theirs.
	due := !i.pushed || now-i.pushedAt >= i.interval()
	if due {
		i.pushed, i.pushedAt = true, now
	}
	switch {
	case !due && !p.Terminating:
		return protocol.CodeThrottlingQuotaExceeded
	case p.ID != i.subID:
		return protocol.CodeUnknownSubscriptionID
	case compress.Codec(p.Codec) > compress.Zstd: // one below 0 is large, too
		return protocol.CodeUnsupportedCompressionType
	case p.Bytes > r.cfg.BytesMax:
		return protocol.CodeTelemetryTooLarge
	}
	return protocol.CodeNone
}

// Closed forgets the instance of a connection that is closed.
func (r *Registry) Closed(id InstanceID) {
	if e := r.instances[id]; e != nil {
		r.drop(e)
	}
}

// Counts returns what has been seen, old instances left out.
func (r *Registry) Counts(now model.Instant) Counts {
	r.sweep(now)
	c := r.counts
	c.Instances, c.Subscriptions = int64(len(r.instances)), int64(len(r.asked.subs))
	return c
}

// find returns the instance of that id, made anew if it is not known, is old, or was
// told of other subscriptions than those of now.
func (r *Registry) find(now model.Instant, id InstanceID, c *Client) *instance {
	if now-r.sweptAt >= sweepEvery {
		r.sweep(now)
	}
	e := r.instances[id]
	if e != nil && e.Value.(*instance).forget <= now {
		r.drop(e)
		r.counts.Forgotten++
		e = nil
	}
	if e == nil {
		for len(r.instances) >= r.cfg.InstancesMax {
			r.drop(r.heard.Back())
			r.counts.Displaced++
		}
		e = r.heard.PushFront(r.fresh(id, c))
		r.instances[id] = e
	} else if e.Value.(*instance).version != r.version {
		e.Value = r.fresh(id, c)
	}
	r.heard.MoveToFront(e)
	i := e.Value.(*instance)
	i.forget = now + max(forgetAfter, 3*i.interval())
	return i
}

func (r *Registry) fresh(id InstanceID, c *Client) *instance {
	text := id.String()
	who := *c
	who[config.ClientInstanceID] = &text
	ask := r.asked.of(&who)
	return &instance{id: id, ask: ask, subID: ask.id(id), version: r.version}
}

func (r *Registry) drop(e *list.Element) {
	delete(r.instances, e.Value.(*instance).id)
	r.heard.Remove(e)
}

// sweep drops every old instance.
func (r *Registry) sweep(now model.Instant) {
	r.sweptAt = now
	for e := r.heard.Back(); e != nil; {
		before := e.Prev()
		if e.Value.(*instance).forget <= now {
			r.drop(e)
			r.counts.Forgotten++
		}
		e = before
	}
}

func (i *instance) interval() model.Instant { return model.Instant(i.ask.interval) }

// reserved reports whether an id can't be an instance's.
func reserved(id InstanceID) bool { return id == InstanceID{} || id == InstanceID{15: 1} }
