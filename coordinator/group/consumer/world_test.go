package consumer

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/internal/model"
)

// topics is a small cluster's topics.
type topics struct {
	version int64
	byName  map[string]assign.Topic
}

func (ts *topics) Version() int64 { return ts.version }

func (ts *topics) Topic(name string) (assign.Topic, bool) {
	t, ok := ts.byName[name]
	return t, ok
}

func (ts *topics) Name(id model.TopicID) (string, bool) {
	for name, t := range ts.byName {
		if t.ID == id {
			return name, true
		}
	}
	return "", false
}

func (ts *topics) Names() iter.Seq[string] { return slices.Values(slices.Sorted(maps.Keys(ts.byName))) }

func (ts *topics) set(name string, partitions int32) {
	ts.version++
	t, ok := ts.byName[name]
	if !ok {
		t.ID = model.TopicID{byte(ts.version)}
	}
	t.Partitions = partitions
	ts.byName[name] = t
}

func newTopics() *topics { return &topics{byName: make(map[string]assign.Topic)} }

// world is a group, all that was ever written of it, and its members' clients.
type world struct {
	t       *testing.T
	g       *Group
	ts      *topics
	written []coordinator.Record
	clients map[string]*client
	sizeMax int
}

// client is what a member knows.
type client struct {
	id       string
	instance *string
	names    []string
	regex    *string
	epoch    int32
	owned    assign.Set
	told     assign.Set
	joined   bool
	// unsaid: it has not said what it owns since that, or what it was told, has
	// changed. Clients acknowledge each assignment, also one that changes nothing.
	unsaid, news bool
}

func newWorld(t *testing.T) *world {
	return &world{t: t, g: New("g"), ts: newTopics(), clients: make(map[string]*client), sizeMax: 100}
}

// write puts records into the log and the group.
func (w *world) write(rs []coordinator.Record) {
	w.t.Helper()
	for _, r := range rs {
		p, err := Parse(r)
		if err != nil {
			w.t.Fatal(err)
		}
		w.g.Replay(p)
		w.written = append(w.written, r)
	}
}

// beat sends a client's heartbeat; full says all it knows.
func (w *world) beat(c *client, full bool) Code {
	w.t.Helper()
	r := &Request{Member: c.id, Epoch: c.epoch, Instance: c.instance, ClientID: "client", ClientHost: "/h", RebalanceTimeoutMs: -1}
	if !c.joined || full {
		r.RebalanceTimeoutMs, r.Names, r.Regex = 1000, c.names, c.regex
	}
	if !c.joined || full || c.unsaid {
		owned := slices.Clone(c.owned)
		r.Owned = &owned
	}
	out := w.g.Heartbeat(r, w.ts, w.sizeMax)
	if out.Code != codeNone {
		return out.Code
	}
	w.write(out.Records)
	c.joined, c.unsaid, c.epoch = true, false, out.Epoch
	if out.Tell {
		c.told, c.news = out.Assigned, true
	}
	return codeNone
}

// obey has a client give up what it has to, and take what it was given once that
// is done.
func (c *client) obey() {
	c.unsaid, c.news = c.unsaid || c.news, false
	keep, lost := c.owned.Split(c.told)
	if len(lost) > 0 {
		c.owned, c.unsaid = keep, true
		return
	}
	if !c.owned.Equal(c.told) {
		c.owned, c.unsaid = c.told, true
	}
}

func (w *world) drop(id string) {
	w.write(w.g.Remove(w.ts, id))
	delete(w.clients, id)
}

// check: no partition has two readers.
func (w *world) check() {
	w.t.Helper()
	reader := map[assign.Partition]string{}
	for _, id := range slices.Sorted(maps.Keys(w.clients)) {
		for _, p := range w.clients[id].owned {
			if other, taken := reader[p]; taken {
				w.t.Fatalf("%v is read by %s and %s", p, other, id)
			}
			reader[p] = id
			if owner := w.g.owners[p]; owner != id {
				w.t.Fatalf("%v is read by %s, the group says %q", p, id, owner)
			}
		}
	}
}

// replayed: the group is what its records say.
func (w *world) replayed() {
	w.t.Helper()
	again := New("g")
	for _, r := range w.written {
		p, err := Parse(r)
		if err != nil {
			w.t.Fatal(err)
		}
		again.Replay(p)
	}
	if !reflect.DeepEqual(again.members, w.g.members) || !maps.Equal(again.owners, w.g.owners) || !maps.Equal(again.static, w.g.static) ||
		again.epoch != w.g.epoch || again.hash != w.g.hash || again.targetEpoch != w.g.targetEpoch {
		w.t.Fatal("the records make another group")
	}
}

// settle has everybody talk until nothing changes, and checks the end.
func (w *world) settle() {
	w.t.Helper()
	for round := range 200 {
		before := len(w.written)
		for _, id := range slices.Sorted(maps.Keys(w.clients)) {
			c := w.clients[id]
			if code := w.beat(c, false); code != codeNone {
				w.t.Fatalf("%s is refused with %d", id, code)
			}
			c.obey()
			w.check()
		}
		if len(w.written) == before && round > 3 {
			break
		}
	}
	w.replayed()
	want := map[assign.Partition]bool{}
	for _, c := range w.clients {
		for _, t := range w.g.reads(w.g.members[c.id], w.ts) {
			for n := range t.Partitions {
				want[assign.Partition{Topic: t.ID, Number: n}] = true
			}
		}
	}
	have := 0
	for _, c := range w.clients {
		have += len(c.owned)
		if !c.owned.Equal(w.g.target[c.id]) {
			for _, id := range w.g.Members() {
				w.t.Logf("%+v client %+v", *w.g.members[id], w.clients[id])
			}
			w.t.Fatalf("%s has %v in the end, its target is %v", c.id, c.owned, w.g.target[c.id])
		}
	}
	if state := w.g.State(); have != len(want) || len(w.clients) > 0 && state != "Stable" || len(w.clients) == 0 && state != "Empty" {
		w.t.Fatalf("%d of %d partitions are read in the end, the group is %s", have, len(want), state)
	}
}

// TestGroupsByChance: members come, go, die, come back, subscribe to other
// things, and topics are made, grown and deleted; no partition ever has two
// readers, and when it is quiet all are read.
func TestGroupsByChance(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 848))
			w := newWorld(t)
			names := []string{"a1", "a2", "b1", "b2"}
			w.ts.set("a1", 3)
			w.ts.set("b1", 5)
			next := 0
			for range 150 {
				w.step(r, names, &next)
				w.check()
			}
			w.replayed()
			w.settle()
		})
	}
}

func (w *world) step(r *rand.Rand, names []string, next *int) {
	pick := func() *client {
		ids := slices.Sorted(maps.Keys(w.clients))
		if len(ids) == 0 {
			return nil
		}
		return w.clients[ids[r.IntN(len(ids))]]
	}
	subscribe := func(c *client) {
		c.names, c.regex = []string{}, new(string)
		for _, n := range names {
			if r.IntN(2) == 0 {
				c.names = append(c.names, n)
			}
		}
		if r.IntN(3) == 0 {
			re := []string{"a.*", ".1", "b2|a1", "("}[r.IntN(3)]
			c.regex = &re
		}
	}
	switch r.IntN(14) {
	case 0:
		if len(w.clients) < 6 {
			*next++
			c := &client{id: fmt.Sprint("m", *next)}
			subscribe(c)
			if len(c.names) == 0 && *c.regex == "" {
				c.names = names[:1]
			}
			if r.IntN(3) == 0 {
				i := fmt.Sprint("i", r.IntN(3))
				c.instance = &i
			}
			if code := w.beat(c, true); code == codeNone {
				// A static member's place may have been taken.
				for id, o := range w.clients {
					if o.instance != nil && c.instance != nil && *o.instance == *c.instance {
						delete(w.clients, id)
					}
				}
				w.clients[c.id] = c
			} else if code != CodeUnreleasedInstanceID {
				w.t.Fatalf("a join is refused with %d", code)
			}
		}
	case 1:
		if c := pick(); c != nil {
			w.drop(c.id)
		}
	case 2:
		if c := pick(); c != nil && c.instance != nil {
			out := w.g.Leave(c.id, c.instance, EpochLeaveStatic, w.ts)
			w.write(out.Records)
			// It is away; whoever comes with its instance takes its place, or it
			// is dropped.
			delete(w.clients, c.id)
			if r.IntN(2) == 0 {
				w.write(w.g.Remove(w.ts, c.id))
			} else {
				back := &client{id: c.id + "'", instance: c.instance, names: c.names, regex: c.regex}
				if code := w.beat(back, true); code != codeNone {
					w.t.Fatalf("a static member that is back is refused with %d", code)
				}
				w.clients[back.id] = back
			}
		}
	case 3:
		if c := pick(); c != nil {
			subscribe(c)
			w.beat(c, true)
		}
	case 4:
		w.ts.set(names[r.IntN(len(names))], 1+r.Int32N(7))
	case 5:
		w.ts.version++
		delete(w.ts.byName, names[r.IntN(len(names))])
	case 6: // it has lost its memory and joins anew
		if c := pick(); c != nil {
			c.owned, c.epoch, c.joined = nil, EpochJoin, false
			w.beat(c, true)
		}
	case 7: // the answer to a heartbeat is lost
		if c := pick(); c != nil {
			before := *c
			w.beat(c, r.IntN(2) == 0)
			c.epoch, c.told, c.unsaid, c.joined = before.epoch, before.told, true, before.joined
			if code := w.beat(c, true); code != codeNone {
				w.t.Fatalf("a heartbeat sent again is refused with %d", code)
			}
		}
	default:
		if c := pick(); c != nil {
			w.beat(c, r.IntN(5) == 0)
			if r.IntN(2) == 0 {
				c.obey()
			}
		}
	}
}
