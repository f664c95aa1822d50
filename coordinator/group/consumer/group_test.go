package consumer

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/internal/model"
)

func text(s string) *string { return &s }

// join makes a client's first heartbeat.
func (w *world) join(id, instance string, names ...string) *client {
	w.t.Helper()
	c := &client{id: id, names: names}
	if instance != "" {
		c.instance = &instance
	}
	if code := w.beat(c, true); code != codeNone {
		w.t.Fatalf("%s: %d", id, code)
	}
	w.clients[id] = c
	return c
}

// TestRefusals: who is not who it says, or is behind, learns it by its code.
// Source: KIP-848.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.ts.set("a", 4)
	w.sizeMax = 3
	w.join("m1", "", "a")
	w.join("s1", "i1", "a")
	w.join("s2", "i2", "a")
	w.settle()
	w.ts.set("a", 5)
	w.settle()
	m := w.g.Member("m1")
	owned, none := slices.Clone(m.Assigned), assign.Set{}
	tooMuch := w.g.Member("m1").Assigned.Union(w.g.Member("s1").Assigned)
	for _, tt := range []struct {
		name string
		r    Request
		want Code
	}{
		{"a full group", Request{Member: "m9", Names: []string{"a"}, Owned: &none, RebalanceTimeoutMs: 1}, CodeGroupMaxSizeReached},
		{"an unknown member", Request{Member: "m9", Epoch: m.Epoch}, CodeUnknownMemberID},
		{"an unknown instance", Request{Member: "s1", Instance: text("i9"), Epoch: m.Epoch}, CodeUnknownMemberID},
		{"an instance of another member", Request{Member: "m1", Instance: text("i1"), Epoch: m.Epoch}, CodeFencedInstanceID},
		{"an instance that is taken", Request{Member: "s9", Instance: text("i1"), Epoch: EpochJoin, Owned: &none}, CodeUnreleasedInstanceID},
		{"an epoch that is to come", Request{Member: "m1", Epoch: m.Epoch + 1}, CodeFencedMemberEpoch},
		{"an epoch long past", Request{Member: "m1", Epoch: m.Previous - 1, Owned: &owned}, CodeFencedMemberEpoch},
		{"the epoch before, without what it owns", Request{Member: "m1", Epoch: m.Previous}, CodeFencedMemberEpoch},
		{"the epoch before, with what others own", Request{Member: "m1", Epoch: m.Previous, Owned: &tooMuch}, CodeFencedMemberEpoch},
		{"the epoch before: the answer was lost", Request{Member: "m1", Epoch: m.Previous, Owned: &owned, RebalanceTimeoutMs: -1}, codeNone},
		{"the present epoch", Request{Member: "m1", Epoch: m.Epoch, RebalanceTimeoutMs: -1}, codeNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.ClientID, tt.r.ClientHost = "client", "/h"
			if out := w.g.Heartbeat(&tt.r, w.ts, w.sizeMax); out.Code != tt.want || (out.Code != codeNone) != (out.Why != "") {
				t.Errorf("code %d (%q), want %d", out.Code, out.Why, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		name     string
		member   string
		instance *string
		want     Code
	}{
		{"unknown", "m9", nil, CodeUnknownMemberID},
		{"unknown instance", "s1", text("i9"), CodeUnknownMemberID},
		{"instance of another", "m1", text("i1"), CodeFencedInstanceID},
	} {
		if out := w.g.Leave(tt.member, tt.instance, EpochLeave, w.ts); out.Code != tt.want {
			t.Errorf("%s leaves: %d, want %d", tt.name, out.Code, tt.want)
		}
	}
	for _, tt := range []struct {
		member   string
		instance *string
		epoch    int32
		want     Code
	}{
		{"m9", nil, m.Epoch, CodeUnknownMemberID}, {"m1", text("i1"), m.Epoch, CodeFencedInstanceID},
		{"m1", nil, m.Epoch - 1, CodeStaleMemberEpoch}, {"m1", nil, m.Epoch + 1, CodeStaleMemberEpoch}, {"m1", nil, m.Epoch, codeNone},
	} {
		if got := w.g.MayCommit(tt.member, tt.instance, tt.epoch); got != tt.want {
			t.Errorf("%s commits in epoch %d: %d, want %d", tt.member, tt.epoch, got, tt.want)
		}
	}
}

// TestQuietHeartbeat: a member with nothing new writes nothing and is told
// nothing.
func TestQuietHeartbeat(t *testing.T) {
	w := newWorld(t)
	w.ts.set("a", 4)
	c := w.join("m1", "", "a")
	w.settle()
	before := len(w.written)
	out := w.g.Heartbeat(&Request{Member: "m1", Epoch: c.epoch, RebalanceTimeoutMs: -1, ClientID: "client", ClientHost: "/h"}, w.ts, 10)
	if out.Code != codeNone || out.Tell || len(out.Records) != 0 || len(w.written) != before {
		t.Fatalf("%+v", out)
	}
	// One that says all of itself may have forgotten what it was told.
	owned := slices.Clone(c.owned)
	out = w.g.Heartbeat(&Request{Member: "m1", Epoch: c.epoch, RebalanceTimeoutMs: 1000, Names: []string{"a"}, Owned: &owned, ClientID: "client", ClientHost: "/h"}, w.ts, 10)
	if !out.Tell || len(out.Assigned) != 4 || len(out.Records) != 0 {
		t.Fatalf("%+v", out)
	}
}

// TestHandOver tells how partitions move from one member to another, epoch by
// epoch.
func TestHandOver(t *testing.T) {
	w := newWorld(t)
	w.ts.set("a", 4)
	one := w.join("m1", "", "a")
	one.obey()
	if one.epoch != 1 || len(one.owned) != 4 || w.g.State() != "Stable" {
		t.Fatalf("alone: epoch %d, owns %v, %s", one.epoch, one.owned, w.g.State())
	}
	two := w.join("m2", "", "a")
	if two.epoch != 2 || len(two.told) != 0 || w.g.Member("m2").State != Unreleased || w.g.State() != "Reconciling" {
		t.Fatalf("the second: epoch %d, told %v, %s", two.epoch, two.told, w.g.State())
	}
	w.beat(one, false)
	if one.epoch != 1 || len(one.told) != 2 || w.g.Member("m1").State != Unrevoked || len(w.g.Member("m1").Revoking) != 2 {
		t.Fatalf("the first has to give up two: epoch %d, told %v, %+v", one.epoch, one.told, w.g.Member("m1"))
	}
	w.beat(two, false)
	if len(two.told) != 0 {
		t.Fatalf("nothing is free, the second is told %v", two.told)
	}
	one.unsaid, one.news = false, false
	w.beat(one, false) // it is not done, and says nothing
	if w.g.Member("m1").State != Unrevoked || one.epoch != 1 {
		t.Fatal("the first was believed to be done")
	}
	one.obey()
	w.beat(one, false)
	if one.epoch != 2 || w.g.Member("m1").State != Stable {
		t.Fatalf("the first is done: epoch %d", one.epoch)
	}
	w.beat(two, false)
	if two.epoch != 2 || len(two.told) != 2 || w.g.State() != "Stable" {
		t.Fatalf("the second gets two: epoch %d, told %v, %s", two.epoch, two.told, w.g.State())
	}
	if two.told.Touches(one.owned) {
		t.Fatal("both have one")
	}
}

// TestStaticMember: one that says it will be back keeps its partitions, and the
// others their epoch.
func TestStaticMember(t *testing.T) {
	w := newWorld(t)
	w.ts.set("a", 4)
	w.join("s1", "i1", "a")
	w.join("m2", "", "a")
	w.settle()
	had := slices.Clone(w.clients["s1"].owned)
	epoch, _ := w.g.Epochs()
	out := w.g.Leave("s1", text("i1"), EpochLeaveStatic, w.ts)
	w.write(out.Records)
	if out.Epoch != EpochLeaveStatic || w.g.Member("s1").Epoch != EpochLeaveStatic || w.g.Len() != 2 {
		t.Fatalf("%+v", out)
	}
	delete(w.clients, "s1")
	back := w.join("s1-again", "i1", "a")
	if now, _ := w.g.Epochs(); now != epoch || !back.told.Equal(had) || w.g.Member("s1") != nil || w.g.Len() != 2 {
		t.Fatalf("epoch %d, was %d; told %v, had %v", now, epoch, back.told, had)
	}
	w.settle()
}

// TestSubscriptions: patterns are for whole names and see topics that are made
// later; majorities choose the assignor.
func TestSubscriptions(t *testing.T) {
	w := newWorld(t)
	w.ts.set("logs", 1)
	w.ts.set("old-logs", 1)
	c := &client{id: "m1", names: []string{}, regex: text("log.*")}
	if code := w.beat(c, true); code != codeNone {
		t.Fatal(code)
	}
	w.clients["m1"] = c
	w.settle()
	if len(c.owned) != 1 || !w.g.Subscribed("logs") || w.g.Subscribed("old-logs") {
		t.Fatalf("%v", c.owned)
	}
	epoch, _ := w.g.Epochs()
	w.ts.set("unrelated", 3)
	w.settle()
	if now, _ := w.g.Epochs(); now != epoch {
		t.Fatal("a topic that nobody reads began a rebalance")
	}
	w.ts.set("logs2", 2)
	w.settle()
	if len(c.owned) != 3 {
		t.Fatalf("%v", c.owned)
	}
	if w.g.Assignor() != "uniform" {
		t.Fatal(w.g.Assignor())
	}
	out := w.g.Heartbeat(&Request{Member: "m1", Epoch: c.epoch, RebalanceTimeoutMs: -1, Assignor: text("range"), ClientID: "client", ClientHost: "/h"}, w.ts, 9)
	w.write(out.Records)
	if w.g.Assignor() != "range" {
		t.Fatal(w.g.Assignor())
	}
	if _, err := Compile("("); err == nil {
		t.Fatal("a bad pattern was taken")
	}
}

// TestRecordBytes: the records are Kafka's, byte for byte. The bytes were put
// together by hand from Kafka's message definitions.
func TestRecordBytes(t *testing.T) {
	id := model.TopicID{0xaa, 15: 0xbb}
	uuid := "aa0000000000000000000000000000bb"
	m := &Member{
		ID: "m", Instance: text("i"), ClientID: "c", ClientHost: "/h", Names: []string{"t"}, RebalanceTimeoutMs: 5, Assignor: text("u"),
		Epoch: 3, Previous: 2, State: Unrevoked, Assigned: assign.Set{{Topic: id, Number: 1}, {Topic: id, Number: 2}},
	}
	for _, tt := range []struct {
		name       string
		r          coordinator.Record
		key, value string
	}{
		{"group", groupRecord("g", 7, 9), "0003" + "0001" + "67", "0000" + "00000007" + "010008" + "0000000000000009"},
		{"member", memberRecord("g", m), "0005" + "000167" + "00016d", "0000" + "0269" + "00" + "0263" + "032f68" + "020274" + "00" + "00000005" + "0275" + "00"},
		// The bytes that Apache Kafka 4.3.1's ConsumerGroupMemberMetadataValue writes.
		{"classic member", memberRecord("g", &Member{
			ID: "m", Instance: text("i"), ClientID: "c", ClientHost: "/h", Names: []string{"t"}, Regex: text(""), RebalanceTimeoutMs: 60000,
			Classic: &Classic{SessionTimeoutMs: 10000, Protocols: []Protocol{{Name: "range", Metadata: []byte{1, 2, 3}}}},
		}), "0005" + "000167" + "00016d", "00000269000263032f68020274010000ea60000100120100002710020672616e6765040102030000"},
		{"target", targetRecord("g", 7), "0006" + "000167", "0000" + "00000007" + "00"},
		{"target of a member", targetMemberRecord("g", "m", m.Assigned), "0007" + "000167" + "00016d", "0000" + "02" + uuid + "03" + "00000001" + "00000002" + "00" + "00"},
		{"current", currentMemberRecord("g", m), "0008" + "000167" + "00016d", "0000" + "00000003" + "00000002" + "01" + "02" + uuid + "03" + "00000001" + "00000002" + "00" + "01" + "00"},
		{"tombstone", memberTombstones("g", "m")[0], "0008" + "000167" + "00016d", ""},
	} {
		if got := hex.EncodeToString(tt.r.Key); got != tt.key {
			t.Errorf("%s: key %s, want %s", tt.name, got, tt.key)
		}
		if got := hex.EncodeToString(tt.r.Value); got != tt.value {
			t.Errorf("%s: value %s, want %s", tt.name, got, tt.value)
		}
		p, err := Parse(tt.r)
		if err != nil || p.Group != "g" || p.gone != (tt.r.Value == nil) {
			t.Errorf("%s: %+v, %v", tt.name, p, err)
		}
		if c := p.value.Classic; tt.name == "classic member" && (c == nil || c.SessionTimeoutMs != 10000 || len(c.Protocols) != 1 || string(c.Protocols[0].Metadata) != "\x01\x02\x03") {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}

// FuzzParse: whatever a record holds, it is read or refused, and nothing in it
// makes more memory than it has bytes.
func FuzzParse(f *testing.F) {
	m := &Member{ID: "m", Rack: text("r"), Names: []string{"t"}, Regex: text("x"), Assigned: assign.Set{{Number: 1}}}
	m.Classic = &Classic{SessionTimeoutMs: 5, Protocols: []Protocol{{Name: "range", Metadata: []byte{1}}}}
	for _, r := range append(memberTombstones("g", "m"), groupRecord("g", 1, 2), memberRecord("g", m), targetRecord("g", 1), targetMemberRecord("g", "m", m.Assigned), currentMemberRecord("g", m)) {
		f.Add(r.Key, r.Value)
	}
	f.Fuzz(func(t *testing.T, k, v []byte) {
		r := coordinator.Record{Key: k, Value: v}
		p, err := Parse(r)
		if err != nil {
			return
		}
		g := New(p.Group)
		g.Replay(p)
		if p.gone || p.kind != keyMember {
			return
		}
		again := memberRecord(p.Group, g.Member(p.member))
		q, err := Parse(again)
		if err != nil || !bytes.Equal(again.Key, k) || !slices.Equal(q.value.Names, p.value.Names) || !same(q.value.Regex, p.value.Regex) || !sameClassic(q.value.Classic, p.value.Classic) {
			t.Fatalf("%v, %x", err, again.Key)
		}
	})
}
