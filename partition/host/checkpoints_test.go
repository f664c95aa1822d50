package host

import (
	"maps"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// Checkpoint files are written when they are to hold something else, and only
// then: a broker that rests leaves its disk alone.
func TestCheckpointsAreWrittenWhenSomethingChanged(t *testing.T) {
	n := newNode(t)
	writes := faultfs.NewCounter(faultfs.And(faultfs.PathMatch("*-offset-checkpoint*"), faultfs.OpIn(faultfs.OpWrite)))
	full := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.PathMatch("replication-offset-checkpoint"), faultfs.OpIn(faultfs.OpRename)), faultfs.ENOSPC(0)))
	n.fs = faultfs.Wrap(n.disk, faultfs.First(writes, full))
	n.start()
	n.register()
	n.create("t", 2)
	n.create("u", 1)
	tp := func(topic string, p int32) model.TopicPartition {
		return model.TopicPartition{Topic: topic, Partition: p}
	}
	said := func(want checkpoint.Offsets) {
		t.Helper()
		got, err := checkpoint.ReadOffsets(n.disk, "/data/"+checkpoint.HighWatermarkFile)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("high watermarks %v, %v; want %v", got, err, want)
		}
	}
	rest := func(want int64) {
		t.Helper()
		before := writes.Count()
		n.rt.advance(75_000)
		n.flushAll()
		n.rt.advance(75_000)
		if did := writes.Count() - before; did != want {
			t.Errorf("%d writes, want %d", did, want)
		}
	}
	rest(0)
	send := func(topic string, p int32) {
		t.Helper()
		n.send(n.m.Get(topic, p), 1, batchOf(2, -1, 0))
		n.flushAll()
	}
	send("t", 1)
	rest(2) // high watermark and recovery point
	rest(0)
	said(checkpoint.Offsets{tp("t", 1): 2})
	send("t", 0)
	send("u", 0)
	rest(2)
	said(checkpoint.Offsets{tp("t", 0): 2, tp("t", 1): 2, tp("u", 0): 2})
	n.apply(&metadata.RemoveTopic{ID: topicID("u")})
	rest(2) // its lines go
	said(checkpoint.Offsets{tp("t", 0): 2, tp("t", 1): 2})

	// What a failed write has left is not known: the next time writes, whatever is
	// to be in it.
	full.On()
	send("t", 0)
	n.rt.advance(6_000)
	said(checkpoint.Offsets{tp("t", 0): 2, tp("t", 1): 2})
	full.Off()
	rest(2)
	said(checkpoint.Offsets{tp("t", 0): 4, tp("t", 1): 2})
	rest(0)
	n.stop()
	n.start()
	if hw := n.m.Get("t", 0).State().HighWatermark; hw != 4 {
		t.Errorf("high watermark %d after a restart, want 4", hw)
	}
}

// All partitions share the bound of open files.
func TestPartitionsShareTheFileCache(t *testing.T) {
	n := newNode(t)
	n.start()
	n.register()
	n.create("t", 3)
	for _, h := range n.m.All() {
		n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 0)
	}
	if open := n.m.deps.Files.Open(); open != 3 {
		t.Errorf("%d files are open, want 3", open)
	}
}

// Partitions that hold nothing are stopped without a file or a sync of theirs, and
// are what they were after a start, even if the power was lost in between.
func TestStopOfPartitionsThatHoldNothing(t *testing.T) {
	n := newNode(t)
	touched := faultfs.NewCounter(faultfs.And(faultfs.Under("/data/t-1"), faultfs.Mutations()))
	synced := faultfs.NewCounter(faultfs.And(faultfs.Under("/data/t-1"), faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData, faultfs.OpSyncDir)))
	n.fs = faultfs.Wrap(n.disk, faultfs.First(touched, synced))
	n.start()
	n.register()
	n.create("t", 2)
	n.send(n.m.Get("t", 0), 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.rt.advance(70_000)
	before := touched.Count() + synced.Count()
	n.stop()
	if did := touched.Count() + synced.Count() - before; did != 0 {
		t.Errorf("%d changes and syncs of a partition that holds nothing", did)
	}
	n.start()
	n.stop()
	n.power()
	if sum := n.start(); sum.Loaded+sum.Created != 2 || sum.Offline+sum.Stray != 0 {
		t.Errorf("%+v", sum)
	}
	n.register()
	for p, end := range []model.Offset{3, 0} {
		if s := n.m.Get("t", int32(p)).State(); s.LogEnd != end || s.LogStart != 0 {
			t.Errorf("t-%d is [%d, %d), want [0, %d)", p, s.LogStart, s.LogEnd, end)
		}
	}
}
