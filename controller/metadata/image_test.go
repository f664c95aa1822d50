package metadata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

var m0 = model.OffsetAndEpoch{Offset: 9, Epoch: 2}

// rehash sums the image up from nothing.
func rehash(m *Image) Hash {
	var sum sum128
	for r := range m.Records() {
		c := coder{writing: true}
		sum.add(c.digest(r))
	}
	c := Image{sum: sum}
	return c.Hash()
}

// fixCRCs makes the CRC of each batch right, so that a fuzzer gets past it.
func fixCRCs(b []byte) []byte {
	b = bytes.Clone(b)
	for it := record.NewIter(b); it.Next(); {
		binary.BigEndian.PutUint32(it.Batch()[17:], it.Batch().ComputeCRC())
	}
	return b
}

// randomChange returns a record that fits m, or nil.
func randomChange(m *Image, rng *rand.Rand) Record {
	t := m.TopicByID(topicID(rng.IntN(12)))
	switch rng.IntN(10) {
	case 9:
		if t != nil && len(t.Partitions) > 0 {
			n := rng.IntN(len(t.Partitions))
			for _, b := range t.Partitions[n].Replicas {
				if !t.Partitions[n].InISR(b) {
					return &ReplicaEnd{Broker: b, TopicID: t.ID, Partition: int32(n), End: model.OffsetAndEpoch{Offset: model.Offset(rng.IntN(50)), Epoch: 3}}
				}
			}
		}
	case 0:
		if n := rng.IntN(12); m.TopicByID(topicID(n)) == nil {
			return &TopicRecord{Name: fmt.Sprintf("topic-%04d", n), ID: topicID(n)}
		}
	case 1, 2:
		if t != nil {
			return &PartitionRecord{TopicID: t.ID, Partition: int32(len(t.Partitions)), PartitionRegistration: PartitionRegistration{
				Replicas: []model.BrokerID{1, 2}, ISR: []model.BrokerID{1}, ELR: []model.BrokerID{2}, Leader: 1}}
		}
	case 3, 4:
		if t != nil && len(t.Partitions) > 0 {
			r := NewPartitionChange(t.ID, int32(rng.IntN(len(t.Partitions))))
			r.Leader = []model.BrokerID{NoLeaderChange, model.NoLeader}[rng.IntN(2)]
			r.LastKnown = []model.BrokerID{model.BrokerID(rng.IntN(3))}
			switch rng.IntN(6) {
			case 0:
				r.Replicas, r.ISR, r.ELR, r.Leader = []model.BrokerID{1, 2}, []model.BrokerID{2, 1}, []model.BrokerID{}, 2
			case 1:
				r.Replicas, r.ISR, r.ELR, r.Leader = []model.BrokerID{2, 3}, []model.BrokerID{2}, []model.BrokerID{}, 2
				r.Adding = []model.BrokerID{3}[:rng.IntN(2)]
			}
			return r
		}
	case 5:
		if t != nil && rng.IntN(4) == 0 {
			return &RemoveTopic{ID: t.ID}
		}
	case 6:
		res := Resource{BrokerResource, ""}
		if t != nil {
			res = Resource{TopicResource, t.Name}
		}
		v := fmt.Sprint(rng.IntN(100))
		r := &ConfigRecord{Resource: res, Key: fmt.Sprint("k", rng.IntN(3)), Value: &v}
		if rng.IntN(3) == 0 {
			r.Value = nil
		}
		return r
	case 7:
		id := model.BrokerID(1 + rng.IntN(3))
		if b := m.Broker(id); b == nil || rng.IntN(3) == 0 {
			return &RegisterBroker{ID: id, Epoch: model.NoBrokerEpoch, Fenced: rng.IntN(2) == 0}
		}
		return &BrokerEpochBump{ID: id, Stop: Stop(rng.IntN(3))}
	case 8:
		if rng.IntN(2) == 0 {
			return &ProducerIDs{Next: m.NextProducerID() + 1000}
		}
		return &FeatureLevel{Feature{fmt.Sprint("f", rng.IntN(3)), int16(rng.IntN(3))}}
	}
	return nil
}

// TestApplyProperty: under random changes the hash equals the one summed up
// anew, images that were published never change, a snapshot brings the same
// image back, and entries applied one by one or in one edit give the same.
func TestApplyProperty(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 4))
		m := Empty()
		all := NewEdit(m)
		type published struct {
			m    *Image
			hash Hash
			text []string
		}
		var kept []published
		for step := range 400 {
			at := model.OffsetAndEpoch{Offset: model.Offset(step), Epoch: model.LeaderEpoch(step / 100)}
			r := randomChange(m, rng)
			if r == nil {
				continue
			}
			next, delta, err := Apply(m, at, []Record{r})
			if err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if err := all.Apply(at, []Record{r}); err != nil {
				t.Fatalf("seed %d step %d: in one edit: %v", seed, step, err)
			}
			if next.Hash() != rehash(next) {
				t.Fatalf("seed %d step %d: %s: hash %s, summed up %s", seed, step, Format(r), next.Hash(), rehash(next))
			}
			checkDelta(t, m, next, delta)
			checkTally(t, next)
			checkEnds(t, next)
			m = next
			if step%40 == 0 {
				kept = append(kept, published{m, m.Hash(), dump(m)})
			}
		}
		one, _ := all.Done()
		if one.Hash() != m.Hash() || one.At() != m.At() || !slices.Equal(dump(one), dump(m)) {
			t.Fatalf("seed %d: one edit gives another image", seed)
		}
		for i, p := range kept {
			if rehash(p.m) != p.hash || !slices.Equal(dump(p.m), p.text) {
				t.Fatalf("seed %d: published image %d changed", seed, i)
			}
			h := SnapshotHeader{At: p.m.At(), Time: 5, ConfState: []byte("conf"), BootstrapHash: Hash{1}}
			h2, m2, err := ReadSnapshot(AppendSnapshot(nil, h, p.m))
			if err != nil || !reflect.DeepEqual(h, h2) {
				t.Fatalf("seed %d: snapshot: %v", seed, err)
			}
			if m2.Hash() != p.hash || m2.At() != p.m.At() || m2.NumPartitions() != p.m.NumPartitions() || !slices.Equal(dump(m2), p.text) {
				t.Fatalf("seed %d: the snapshot is another image", seed)
			}
			if d := SnapshotDelta(p.m, m2); len(d.Topics) != 0 {
				t.Fatalf("seed %d: equal images differ in %d topics", seed, len(d.Topics))
			}
		}
	}
}

func dump(m *Image) (lines []string) {
	for r := range m.Records() {
		lines = append(lines, Format(r))
	}
	return lines
}

// checkDelta compares a delta with the two images it lies between.
func checkDelta(t *testing.T, old, m *Image, d *Delta) {
	t.Helper()
	in := map[model.TopicID]TopicDelta{}
	for _, td := range d.Topics {
		if td.New != nil {
			in[td.New.ID] = td
		} else {
			in[td.Old.ID] = td
		}
	}
	for tp := range m.Topics() {
		was, td := old.TopicByID(tp.ID), in[tp.ID]
		if was == tp {
			continue
		}
		if td.New != tp || td.Old != was {
			t.Fatalf("topic %s is new in the image but not in the delta", tp.Name)
		}
		for i, p := range tp.Partitions {
			same := was != nil && was.Partition(int32(i)) == p
			if same == slices.Contains(td.Partitions, int32(i)) {
				t.Fatalf("%s-%d: same=%t, delta lists %v", tp.Name, i, same, td.Partitions)
			}
		}
	}
	for tp := range old.Topics() {
		if gone := m.TopicByID(tp.ID) == nil; gone && (in[tp.ID].Old != tp || in[tp.ID].New != nil) {
			t.Fatalf("topic %s is gone, the delta does not say so", tp.Name)
		}
	}
	for _, b := range m.Brokers() {
		if changed := old.Broker(b.ID) != b; changed != slices.Contains(d.Brokers, b.ID) {
			t.Fatalf("broker %d changed=%t, delta lists %v", b.ID, changed, d.Brokers)
		}
	}
}

// TestRefusedRecords: a record that does not fit is an error, and leaves no
// trace.
func TestRefusedRecords(t *testing.T) {
	m := grow(1, 2)
	good := PartitionRegistration{Replicas: []model.BrokerID{1, 2}, ISR: []model.BrokerID{1}, Leader: 1}
	with := func(f func(p *PartitionRegistration)) *PartitionRecord {
		p := good
		f(&p)
		return &PartitionRecord{TopicID: topicID(0), Partition: 2, PartitionRegistration: p}
	}
	change := func(f func(c *PartitionChange)) *PartitionChange {
		c := NewPartitionChange(topicID(0), 1)
		f(c)
		return c
	}
	for name, r := range map[string]Record{
		"topic name":       &TopicRecord{Name: "topic-0000", ID: topicID(5)},
		"topic id":         &TopicRecord{Name: "other", ID: topicID(0)},
		"no name":          &TopicRecord{ID: topicID(5)},
		"partition gap":    &PartitionRecord{TopicID: topicID(0), Partition: 3, PartitionRegistration: good},
		"partition twice":  &PartitionRecord{TopicID: topicID(0), Partition: 1, PartitionRegistration: good},
		"partition topic":  &PartitionRecord{TopicID: topicID(9), Partition: 0, PartitionRegistration: good},
		"no replicas":      with(func(p *PartitionRegistration) { p.Replicas = nil }),
		"replicas repeat":  with(func(p *PartitionRegistration) { p.Replicas = []model.BrokerID{1, 1} }),
		"isr outside":      with(func(p *PartitionRegistration) { p.ISR = []model.BrokerID{1, 3} }),
		"leader outside":   with(func(p *PartitionRegistration) { p.Leader = 2 }),
		"isr meets elr":    with(func(p *PartitionRegistration) { p.ELR = []model.BrokerID{1} }),
		"elr outside":      with(func(p *PartitionRegistration) { p.ELR = []model.BrokerID{7} }),
		"directories":      with(func(p *PartitionRegistration) { p.Directories = []DirectoryID{{1}} }),
		"recovery":         with(func(p *PartitionRegistration) { p.Recovery = 4 }),
		"epochs":           with(func(p *PartitionRegistration) { p.LeaderEpoch = -1 }),
		"change leader":    change(func(c *PartitionChange) { c.Leader = 3 }),
		"change isr":       change(func(c *PartitionChange) { c.ISR = []model.BrokerID{} }),
		"change partition": &PartitionChange{TopicID: topicID(0), Partition: 2, Leader: -2, Recovery: -1},
		"remove":           &RemoveTopic{ID: topicID(7)},
		"config topic":     &ConfigRecord{Resource: Resource{TopicResource, "nope"}, Key: "k"},
		"config type":      &ConfigRecord{Resource: Resource{7, "x"}, Key: "k"},
		"config key":       &ConfigRecord{Resource: Resource{TopicResource, "topic-0000"}},
		"broker epoch":     &RegisterBroker{ID: 1, Epoch: 0},
		"broker id":        &RegisterBroker{ID: -1, Epoch: -1},
		"stale change":     &BrokerChange{ID: 1, Epoch: 44, Fenced: Set},
		"unregister":       &UnregisterBroker{ID: 1, Epoch: 44},
		"bump":             &BrokerEpochBump{ID: -5},
		"end topic":        &ReplicaEnd{Broker: 3, TopicID: topicID(9)},
		"end partition":    &ReplicaEnd{Broker: 3, TopicID: topicID(0), Partition: 7},
		"end isr":          &ReplicaEnd{Broker: 1, TopicID: topicID(0)},
		"end replica":      &ReplicaEnd{Broker: 8, TopicID: topicID(0)},
		"cluster":          &Cluster{ID: "other"},
		"voters":           &Voters{},
		"feature":          &FeatureLevel{},
		"producer ids":     &ProducerIDs{Next: 0},
	} {
		before := dump(m)
		_, _, err := Apply(m, m0, []Record{&NoOp{}, r})
		var ae *ApplyError
		if !errors.As(err, &ae) || ae.Record != 1 || ae.At != m0 || ae.Kind != r.Kind() {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(dump(m), before) {
			t.Fatalf("%s: the image changed", name)
		}
	}
}

// TestBrokerEpoch: the epoch of a registration is the offset of its entry.
func TestBrokerEpoch(t *testing.T) {
	m, _, err := Apply(Empty(), m0, []Record{&RegisterBroker{ID: 1, Epoch: model.NoBrokerEpoch}})
	if err != nil || m.Broker(1).Epoch != model.BrokerEpoch(m0.Offset) {
		t.Fatalf("%v %v", m.Broker(1), err)
	}
}

// TestOneChangeCostsOneChange: a change of one of 10,000 partitions copies its
// topic's list and little else, and lookups do not allocate.
func TestOneChangeCostsOneChange(t *testing.T) {
	m := grow(10, 1000)
	c := NewPartitionChange(topicID(3), 77)
	c.Leader = model.NoLeader
	if n := testing.AllocsPerRun(20, func() {
		if _, _, err := Apply(m, m0, []Record{c}); err != nil {
			t.Fatal(err)
		}
	}); n > 60 {
		t.Errorf("one change makes %.0f allocations", n)
	}
	many := make([]Record, 1000)
	for i := range many {
		c := NewPartitionChange(topicID(3), int32(i))
		c.Leader = model.NoLeader
		many[i] = c
	}
	if n := testing.AllocsPerRun(5, func() {
		if _, _, err := Apply(m, m0, many); err != nil {
			t.Fatal(err)
		}
	}); n > 4*1000 {
		t.Errorf("1000 changes of one topic make %.0f allocations", n)
	}
	if n := testing.AllocsPerRun(20, func() {
		if m.Partition("topic-0007", 500) == nil || m.PartitionByID(model.TopicIDPartition{TopicID: topicID(2), Partition: 9}) == nil ||
			m.Broker(1) == nil || m.Partition("topic-0007", 1000) != nil || m.Topic("nope") != nil {
			t.Fatal("lookup failed")
		}
	}); n != 0 {
		t.Errorf("lookups make %.0f allocations", n)
	}
}

func TestSnapshotNames(t *testing.T) {
	at := model.OffsetAndEpoch{Offset: 0, Epoch: 1}
	if n := SnapshotName(at); n != "00000000000000000001-0000000001.checkpoint" {
		t.Error(n)
	}
	if got, ok := ParseSnapshotName(SnapshotName(m0)); !ok || got != m0 {
		t.Error(got, ok)
	}
	for _, n := range []string{"", "00000000000000000000-0000000001.checkpoint", "00000000000000000001-0000000001.checkpoint.tmp",
		"00000000000000000001_0000000001.checkpoint", "0000000000000000000x-0000000001.checkpoint", "1-1.checkpoint"} {
		if _, ok := ParseSnapshotName(n); ok {
			t.Error(n)
		}
	}
}

// TestDamagedSnapshots: any changed byte and any missing end is noticed.
func TestDamagedSnapshots(t *testing.T) {
	b := AppendSnapshot(nil, SnapshotHeader{At: m0, ConfState: []byte("x")}, grow(2, 2))
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 0x40
		h, m, err := ReadSnapshot(c)
		if err == nil && (h.At != m0 || m.Hash() != rehash(m)) {
			t.Fatalf("byte %d: accepted %v", i, h)
		}
		if _, _, err := ReadSnapshot(b[:i]); err == nil {
			t.Fatalf("%d of %d bytes were accepted", i, len(b))
		}
	}
}

// TestSnapshotOfNoEntry: offset and term of a snapshot are of an entry, so they
// are not negative, whatever a sound CRC covers.
func TestSnapshotOfNoEntry(t *testing.T) {
	for _, at := range []model.OffsetAndEpoch{{Offset: -1, Epoch: 2}, {Offset: 1, Epoch: -25}} {
		b := AppendSnapshot(nil, SnapshotHeader{At: at}, Empty())
		for pos := 0; pos < len(b); pos += 12 + int(binary.BigEndian.Uint32(b[pos+8:])) {
			binary.BigEndian.PutUint32(b[pos+12:], 2) // the batch's own epoch
		}
		if _, _, err := ReadSnapshot(fixCRCs(b)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v: %v", at, err)
		}
	}
}

// TestRaftIDs: ids depend on both halves of the identity.
func TestRaftIDs(t *testing.T) {
	seen := map[uint64]bool{}
	for n := range 50 {
		for d := range 50 {
			id := RaftID(model.BrokerID(n), DirectoryID{byte(d)})
			if id == 0 || id >= ^uint64(0)-1 || seen[id] {
				t.Fatalf("node %d directory %d: id %d", n, d, id)
			}
			seen[id] = true
		}
	}
}
