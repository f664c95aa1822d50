package sim

import (
	"errors"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition/host"
)

// Who begins to lead an epoch late, when the next has begun, need not have what
// was acknowledged since.
func TestLeaderNeedsWhatWasAcknowledgedBefore(t *testing.T) {
	p := &part{acked: 9, reigns: map[int32]reign{1: {}, 4: {}}, ackedAt: map[int32]int64{2: 5, 4: 7}}
	for epoch, want := range map[int32]int64{0: 0, 2: 5, 4: 9, 6: 9} {
		if got := p.ackedBefore(epoch); got != want {
			t.Errorf("epoch %d: %d, want %d", epoch, got, want)
		}
	}
	p.acked = 3 // an unclean election since
	if got := p.ackedBefore(2); got != 3 {
		t.Errorf("epoch 2 needs %d, no more than 3 are left", got)
	}
}

// assigned makes d0-0 and the metadata of it.
func assigned(t *testing.T, w *World, replicas, isr []model.BrokerID) *part {
	t.Helper()
	id := model.TopicIDPartition{TopicID: model.TopicID{7}}
	img, _, err := metadata.Apply(metadata.Empty(), model.OffsetAndEpoch{}, []metadata.Record{
		&metadata.TopicRecord{ID: id.TopicID, Name: "d0"},
		&metadata.PartitionRecord{TopicID: id.TopicID, PartitionRegistration: metadata.PartitionRegistration{
			Replicas: replicas, Directories: make([]metadata.DirectoryID, len(replicas)), ISR: isr, Leader: isr[0],
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.meta.img = img
	return w.h.part(id, model.TopicPartition{Topic: "d0"})
}

// A damaged replica that is not assigned any more keeps nobody from being in
// sync.
func TestHurtReplicaThatWasRemoved(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	p := assigned(t, w, []model.BrokerID{1, 2}, []model.BrokerID{1, 2})
	w.machines[2].replica(p).hurt = true
	if w.anyHurt(p) {
		t.Error("a replica of broker 3 counts")
	}
	w.machines[1].replica(p).hurt = true
	if !w.anyHurt(p) {
		t.Error("a replica of broker 2 does not count")
	}
}

// A seat that a broker gets while nobody knows that its power was lost is not a
// sound one, until it has registered again.
func TestPowerLostBeforeTheReplica(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	m := w.machines[0]
	p := w.h.part(model.TopicIDPartition{Partition: 1}, model.TopicPartition{Topic: "d0", Partition: 1})
	m.powerLost()
	if r := m.replica(p); !r.dark || !r.tainted {
		t.Errorf("after the loss: dark %v, tainted %v", r.dark, r.tainted)
	}
	if r := w.machines[1].replica(p); r.dark || r.tainted {
		t.Errorf("on another machine: dark %v, tainted %v", r.dark, r.tainted)
	}
}

// A replica that is filled anew without a restart comes to its seat through the
// leader, and may lead in the same entry (seed 600145). One that had a seat, or
// lost power, is not whole for having been filled. What a failed fsync dropped was
// of its old files. One that was never made until now has lost nothing (seed 3017413).
func TestRefilledWithoutASeat(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	p := assigned(t, w, []model.BrokerID{1, 2, 3}, []model.BrokerID{1, 2})
	for _, tt := range []struct {
		broker              int
		dark, drop, tainted bool
		end                 int64
	}{{1, false, false, true, 9}, {1, false, false, false, 0}, {3, false, false, false, 9}, {3, true, false, true, 9}, {3, false, true, false, 9}} {
		r := w.machines[tt.broker-1].replica(p)
		r.hurt, r.dark, r.drop, r.frozen, r.end = true, tt.dark, tt.drop, 1, tt.end
		r.lossy, r.tainted = tt.dark, tt.dark
		if r.refilled(); r.hurt || r.drop || r.frozen != 0 || r.tainted != tt.tainted {
			t.Errorf("%+v: tainted %v, hurt %v, drop %v, frozen in %d", tt, r.tainted, r.hurt, r.drop, r.frozen)
		}
	}
}

// A failed fsync that the world does without has dropped nothing.
func TestOnlyFaultsThatHappenDrop(t *testing.T) {
	for _, on := range []bool{false, true} {
		w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
		w.o.on[KindFsync] = on
		m := w.machines[0]
		r := m.replica(w.h.part(model.TopicIDPartition{}, model.TopicPartition{Topic: "d0"}))
		m.faults.errors, m.faults.errorPct, m.faults.drops = 1, 100, true
		fault := m.faults.fault(faultfs.Op{Kind: faultfs.OpSync, Path: dataDir + "/d0-0/00000000000000000000.log"})
		if (fault != nil) != on || r.drop != on || r.tainted != on {
			t.Errorf("fsync faults %v: fault %v, dropped %v, tainted %v", on, fault, r.drop, r.tainted)
		}
	}
}

// A registration that was under way when power went says nothing of the loss.
func TestRegistrationOfAnEarlierLife(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	m := w.machines[0]
	m.lives = 4
	m.lifeOf[metadata.Incarnation{1}], m.lifeOf[metadata.Incarnation{2}] = 4, 5
	register := func(name byte) {
		img, _, err := metadata.Apply(metadata.Empty(), model.OffsetAndEpoch{}, []metadata.Record{&metadata.RegisterBroker{ID: 1, Incarnation: metadata.Incarnation{name}}})
		if err != nil {
			t.Fatal(err)
		}
		w.meta.img = img
		w.meta.registered(1)
	}
	m.powerLost()
	m.lives = 5
	if register(1); !m.powerCut {
		t.Error("the loss is told before the next life registers")
	}
	if register(2); m.powerCut {
		t.Error("the loss is not told when the next life registers")
	}
}

// A replica that missed an unclean election has another record where one was
// acknowledged since.
func TestContradictingReplica(t *testing.T) {
	p := &part{acked: 3, recs: []rec{{id: 1}, {}, {id: 3}}}
	r := &replica{part: p, recs: []rec{{id: 1}, {id: 2}, {}, {id: 4}}}
	if r.contradicts() {
		t.Error("what is not known contradicts")
	}
	if r.recs[2].id = 9; !r.contradicts() {
		t.Error("another record contradicts nothing")
	}
	if p.maxStart = 3; r.contradicts() {
		t.Error("what DeleteRecords took away contradicts")
	}
}

// What DeleteRecords took away before anybody looked at it may have been any record.
func TestHistoryKnowsWhatNobodySaw(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	p := w.h.part(model.TopicIDPartition{Partition: 1}, model.TopicPartition{Topic: "d0", Partition: 1})
	for _, at := range []int64{0, 2} {
		w.h.holds(w.machines[at].replica(p), 1, at, w.h.newPayload("d0", 1, true), 5, "a look")
	}
	for start, want := range []bool{false, false, true, true} {
		if p.maxStart = int64(start); w.h.unseen(p) != want {
			t.Errorf("below %d: unseen %v", start, !want)
		}
	}
	w.h.shown(p, 1, 1, w.h.newPayload("d0", 1, true), 5, "a fetch")
	if p.maxStart = 3; w.h.unseen(p) {
		t.Error("what was shown was seen by nobody")
	}
	if p.maxStart = 4; !w.h.unseen(p) {
		t.Error("what lies behind all that was seen was seen")
	}
}

// A record that DeleteRecords took away, and that a leader took again, is at another
// place than before.
func TestRecordTakenAgain(t *testing.T) {
	for _, tc := range []struct {
		was, start, at int64
		shown, want    bool
	}{
		{4, 5, 7, false, true}, {4, 4, 7, false, false}, {4, 5, 4, false, false}, {4, 5, 7, true, true}, {4, 4, 7, true, false}, {4, 5, 4, true, false},
	} {
		w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
		p := w.h.part(model.TopicIDPartition{Partition: 1}, model.TopicPartition{Topic: "d0", Partition: 1})
		id := w.h.newPayload("d0", 1, true)
		if tc.shown {
			w.h.shown(p, 1, tc.was, id, 5, "a fetch")
		} else {
			w.h.holds(w.machines[1].replica(p), 1, tc.was, id, 5, "a look")
		}
		p.maxStart = tc.start
		if got := w.h.retaken(p, id, tc.at); got != tc.want {
			t.Errorf("%+v: taken again %v", tc, got)
		}
	}
}

// A record is there as long as one replica has it, wherever another had it last.
func TestHistoryFindsARecordOnAnyReplica(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	p := w.h.part(model.TopicIDPartition{Partition: 1}, model.TopicPartition{Topic: "d0", Partition: 1})
	id := w.h.newPayload("d0", 1, true)
	a, b := w.machines[0].replica(p), w.machines[1].replica(p)
	w.h.holds(a, 1, 4, id, 5, "a look")
	w.h.holds(b, 2, 6, id, 5, "a look")
	b.cut(6)
	if !w.h.has(p, id) {
		t.Error("the record is on the first replica still")
	}
	if w.h.payload(id).part = p; !w.h.has(p, id) {
		t.Error("what was shown is not there, whoever holds it")
	}
	w.h.payload(id).part = nil
	if a.cut(4); w.h.has(p, id) {
		t.Error("no replica has the record any more")
	}
}

// Two leaders may have written one record to one place: their logs part there all
// the same.
func TestSameRecordOfTwoLeaders(t *testing.T) {
	known, unknown := rec{id: 7, epoch: 9}, rec{id: 7, epoch: -1}
	for _, tt := range []struct {
		r     rec
		id    uint64
		epoch int32
		want  bool
	}{{known, 7, 9, false}, {known, 7, 8, true}, {known, 8, 9, true}, {unknown, 7, 8, false}, {rec{}, 7, 8, false}} {
		if got := tt.r.differs(tt.id, tt.epoch); got != tt.want {
			t.Errorf("%+v against record %d of epoch %d: %v", tt.r, tt.id, tt.epoch, got)
		}
	}
}

// A producer whose batches all lie below the log start is unknown to a leader that
// has only what lies above; a log that still has them on its disk shows a gap, also
// when the log has been cut further up since (seeds 500012, 500022).
func TestForgottenProducer(t *testing.T) {
	l := progress{last: 40}
	for _, tt := range []struct {
		base   int64
		starts []int64 // as they were seen
		want   bool
	}{
		{41, nil, false},
		{41, []int64{0}, false},
		{41, []int64{0, 40}, false},
		{41, []int64{0, 41}, true},
		{50, []int64{0, 41}, true},
		{41, []int64{0, 50}, false},
		{41, []int64{0, 41, 100}, true},
		{50, []int64{0, 100, 45}, true}, // an older leader's start
		{44, []int64{0, 100, 45}, false},
		{99, []int64{0, 40, 100}, false},
	} {
		var p part
		for _, start := range tt.starts {
			p.began(start)
		}
		if got := l.forgotten(tt.base, p.starts); got != tt.want {
			t.Errorf("a batch at %d, the log once started at %v: %v", tt.base, tt.starts, got)
		}
	}
}

// A log that was cut and has grown again in one event was cut where the epochs
// part.
func TestCutAndGrownAgain(t *testing.T) {
	recs := []rec{{}, {id: 1, epoch: 2}, {id: 2, epoch: 2}, {id: 3, epoch: 4}, {id: 4, epoch: -1}}
	for _, tc := range []struct {
		epochs     []int32
		start, end int64
		want       int64
	}{
		{[]int32{2, 2, 2, 4, 4}, 0, 5, 5}, {[]int32{2, 2, 2, 4}, 0, 4, 4}, {[]int32{2, 2, 2, 5, 5, 5}, 0, 6, 3},
		{[]int32{3, 3, 3, 3}, 0, 4, 1}, {[]int32{3, 3, 3, 3}, 2, 4, 2}, {[]int32{-1, -1, -1, 4, 5}, 0, 5, 5},
	} {
		r := replica{recs: recs}
		epochOf := func(o int64) int32 { return tc.epochs[o] }
		if got := r.partedAt(tc.start, tc.end, epochOf); got != tc.want {
			t.Errorf("epochs %v from %d: parted at %d, want %d", tc.epochs, tc.start, got, tc.want)
		}
		if r.rotten = true; r.partedAt(tc.start, tc.end, epochOf) != tc.end {
			t.Errorf("epochs %v from %d: a spoilt epoch passes for a cut", tc.epochs, tc.start)
		}
	}
}

// Power that goes while a machine rests after an orderly stop takes nothing.
func TestPowerLostAtRest(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	m := w.machines[0]
	r := m.replica(w.h.part(model.TopicIDPartition{Partition: 1}, model.TopicPartition{Topic: "d0", Partition: 1}))
	if err := errors.Join(m.disk.MkdirAll(dataDir, 0o755), m.disk.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileAtomic(m.disk, dataDir+"/"+cleanFile, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if m.end(deathPower, nil); m.powerCut || r.dark || r.lossy {
		t.Error("what was stopped in order has lost something")
	}
	if err := m.disk.Remove(dataDir + "/" + cleanFile); err != nil {
		t.Fatal(err)
	}
	if m.end(deathPower, nil); !m.powerCut || !r.dark || !r.lossy {
		t.Error("nothing can be missing")
	}
}

// An error that strikes a replica which is assigned anew is not one of the replica
// that was there before.
func TestHitOfANewReplica(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	m := w.machines[0]
	p := w.h.part(model.TopicIDPartition{Partition: 1}, model.TopicPartition{Topic: "d0", Partition: 1})
	old := m.replica(p)
	old.left = true
	m.hit(partDir(p.tp) + "/00000000000000000000.log")
	m.replicas = nil
	if r := m.replica(p); old.hit || !r.hit {
		t.Errorf("the old one was hit: %v, the new one %v", old.hit, r.hit)
	}
}

// A replica that an acknowledged DeleteRecords has bound begins there or above,
// until it is filled anew, leaves, or an election loses records.
func TestDeletedRecordsStayDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		start   model.Offset
		release func(*replica)
		fails   bool
	}{
		"where it was":                {5, nil, false},
		"above":                       {9, nil, false},
		"below":                       {4, nil, true},
		"below, filled anew":          {4, func(r *replica) { r.emptied() }, false},
		"below, of another log":       {4, func(r *replica) { r.left = true }, false},
		"below, after an election":    {4, func(r *replica) { r.part.lost = true }, false},
		"below, but it looks nowhere": {4, func(r *replica) { r.state.View = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
			r := w.machines[0].replica(w.h.part(model.TopicIDPartition{}, model.TopicPartition{Topic: "t"}))
			r.state = &host.State{View: &log.View{}}
			r.state.LogStart = 5
			r.bind(5)
			r.state.LogStart = c.start
			if c.release != nil {
				c.release(r)
			}
			defer func() {
				if failed := recover() != nil; failed != c.fails {
					t.Errorf("fails: %v, want %v", failed, c.fails)
				}
			}()
			r.keepsDeleted()
		})
	}
}

// A DeleteRecords binds the incarnations that its leader has heard of. One whose replica
// was taken away since is not what it was; one that has just registered anew may be
// another to the partition than to its node.
func TestWhoADeletionBinds(t *testing.T) {
	w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
	m := w.machines[1]
	n := &node{world: w, m: w.machines[0], fenced: make(map[model.BrokerID]model.Instant), incarnations: make(map[model.BrokerID]metadata.Incarnation)}
	m.lifeOf[metadata.Incarnation{1}], m.lifeOf[metadata.Incarnation{2}] = 1, 2
	m.wipedLife = 1
	for i, want := range map[metadata.Incarnation]bool{{1}: true, {2}: false} {
		if got := m.wipedSince(i); got != want {
			t.Errorf("incarnation %d: taken away since %v, want %v", i[0], got, want)
		}
	}
	img := metadata.Empty()
	for i, c := range []struct {
		name byte
		want bool
	}{{1, false}, {1, false}, {2, true}, {2, false}} {
		var err error
		recs := []metadata.Record{&metadata.RegisterBroker{ID: m.id, Epoch: model.BrokerEpoch(i + 1), Incarnation: metadata.Incarnation{c.name}}}
		if img, _, err = metadata.Apply(img, model.OffsetAndEpoch{Offset: model.Offset(i), Epoch: 1}, recs); err != nil {
			t.Fatal(err)
		}
		delete(n.fenced, m.id)
		n.noteFenced(img)
		if _, got := n.fenced[m.id]; got != c.want {
			t.Errorf("image %d: noted as fenced %v, want %v", i, got, c.want)
		}
	}
}

// A replica that never had a log is excused from having none only if an election
// without a choice has named it, and nobody has led since.
func TestUnmadeReplica(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*replica)
		want   bool
	}{
		"as it is":             {func(*replica) {}, true},
		"another was elected":  {func(r *replica) { r.part.uncleanLeader = 2 }, false},
		"cleanly":              {func(r *replica) { r.part.pending = false }, false},
		"it was loaded before": {func(r *replica) { r.life = 1 }, false},
		"it had records":       {func(r *replica) { r.had.end = 1 }, false},
	} {
		w := newWorld(Options{Seed: 1, Nodes: 3}, nil)
		r := w.machines[0].replica(w.h.part(model.TopicIDPartition{}, model.TopicPartition{Topic: "d0"}))
		r.part.pending, r.part.uncleanLeader = true, 1
		if c.change(r); r.unmade() != c.want {
			t.Errorf("%s: unmade %v", name, r.unmade())
		}
	}
}
