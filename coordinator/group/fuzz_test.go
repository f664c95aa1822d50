package group

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/model"
)

// FuzzReplay: no bytes of a record make a machine fail; what it makes of them it
// can serve, and writes so that it is read as the same.
func FuzzReplay(f *testing.F) {
	o := offsetRecord("g", "t", 3, &committed{offset: 7, epoch: 2, metadata: "m", at: 5, expires: model.NoTimestamp})
	f.Add(o.Key, o.Value, false)
	o = offsetRecord("g", "t", 3, &committed{offset: 7, epoch: -1, at: 5, expires: 9})
	f.Add(o.Key, o.Value, false)
	f.Add(o.Key, []byte(nil), true)
	w := newWorld(defaultConfig())
	w.call("A", 3, "c", w.joinRequest(args{&emptyData}))
	w.pass(ms)
	for _, m := range w.machine().groups["g"].classic.members {
		m.assignment = []byte("x")
	}
	g := groupRecord(w.machine().groups["g"], nil)
	f.Add(g.Key, g.Value, false)
	f.Add(g.Key, []byte(nil), true)
	f.Add([]byte{0, 3, 0, 1, 'g'}, []byte{0, 0, 0, 0, 0, 1}, false)
	f.Fuzz(func(t *testing.T, key, value []byte, gone bool) {
		if gone {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		rec := coordinator.Record{Key: key, Value: value}
		cfg := defaultConfig()
		m := New(&cfg, rand.New(rand.NewPCG(1, 2)))
		m.Replay(0, rec)
		m.Commit(1)
		var out coordinator.Out
		m.Begin(model.Now{Wall: 1}, &out)
		c := &coordinator.Call{Key: "g", Request: &Describe{}}
		m.Handle(model.Now{Mono: 1, Wall: 1}, c, &out)
		m.Tick(model.Now{Mono: 1 << 60, Wall: 1 << 50}, &out)
		p, err := parse(rec)
		if err != nil || p.offset == nil {
			return
		}
		again, err := parse(offsetRecord(p.group, p.topic, p.partition, p.offset))
		if err != nil || again.group != p.group || again.topic != p.topic || *again.offset != *normal(p.offset) {
			t.Errorf("%+v is read back as %+v: %v", p.offset, again.offset, err)
		}
	})
}

// normal is an offset as it can be written: one with an expiry has no epoch.
func normal(c *committed) *committed {
	n := *c
	if n.expires != model.NoTimestamp {
		n.epoch = -1
	}
	return &n
}

// FuzzSubscription: no metadata of a member makes reading it fail.
func FuzzSubscription(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, ok := subscription(b)
		size := 0
		for _, name := range topics {
			size += len(name) + 2
		}
		if size > len(b) {
			t.Errorf("%d bytes of topics out of %d", size, len(b))
		}
		if ok && bytes.HasPrefix(b, []byte{0xff}) {
			t.Error("a negative version was understood")
		}
	})
}
