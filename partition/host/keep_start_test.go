package host

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
)

// TestDeleteRecordsOutlivesAKill: what was acknowledged is deleted for whoever
// starts next, after a kill and after a loss of power.
func TestDeleteRecordsOutlivesAKill(t *testing.T) {
	for name, end := range map[string]func(*node){"kill": (*node).kill, "power": (*node).power} {
		t.Run(name, func(t *testing.T) {
			n, h := leading(t, map[string]string{"flush.messages": "1"})
			n.send(h, 1, batchOf(5, -1, 0))
			n.flushAll()
			a := &answers{}
			h.DeleteRecords(3, model.Never, a, 0)
			if s := h.State(); s.LogStart != 3 || len(a.deleted) != 0 {
				t.Fatalf("starts at %d, answers %v before the disk has written anything", s.LogStart, a.deleted)
			}
			n.flushAll()
			if want := []string{"0 3"}; !slices.Equal(a.deleted, want) {
				t.Fatalf("answers %v, want %v", a.deleted, want)
			}
			end(n)
			n.start()
			if s := n.m.Get("t", 0).State(); s.LogStart != 3 || values(t, s) != 5 {
				t.Errorf("after the start: %+v", s.Mark)
			}
		})
	}
}

// TestDeleteRecordsAtEveryDiskCall: at whatever call of the disk the broker dies,
// nothing that was acknowledged comes back, and what was not is gone or whole.
func TestDeleteRecordsAtEveryDiskCall(t *testing.T) {
	for name, dead := range map[string]func(*memfs.FS) *memfs.FS{
		"kill":  func(d *memfs.FS) *memfs.FS { return d.KillClone(memfs.Kill{}) },
		"power": func(d *memfs.FS) *memfs.FS { return d.CrashClone(memfs.Crash{}) },
	} {
		t.Run(name, func(t *testing.T) {
			before, after := 0, 0
			for at := 0; ; at++ {
				n, h := leading(t, map[string]string{"flush.messages": "1"})
				n.send(h, 1, batchOf(5, -1, 0))
				n.flushAll()
				a := &answers{}
				var taken *memfs.FS
				var answered bool
				calls := 0
				picture := func() { taken, answered = dead(n.disk.Fork()), len(a.deleted) > 0 }
				n.dirs.All()[0].fs = faultfs.Wrap(n.disk, faultfs.When(predicateFunc(func(op faultfs.Op) bool {
					if calls == at && op.Kind.Mutates() && taken == nil {
						picture()
					}
					if op.Kind.Mutates() {
						calls++
					}
					return false
				}), faultfs.EIO()))
				h.DeleteRecords(3, model.Never, a, 0)
				n.flushAll()
				last := taken == nil
				if last {
					picture()
				}
				n.disk, n.fs = taken, taken
				n.start()
				switch s := n.m.Get("t", 0).State(); {
				case s.LogStart == 3:
					after++
				case s.LogStart == 0 && !answered:
					before++
				default:
					t.Errorf("death before call %d: answered %v, starts at %d", at, answered, s.LogStart)
				}
				if last {
					if !answered {
						t.Error("not answered at the end")
					}
					break
				}
			}
			if before < 4 || after < 1 {
				t.Errorf("%d pictures without the new start and %d with it: the calls were not all seen", before, after)
			}
		})
	}
}

// TestDeleteRecordsWithoutRoom: each call of the checkpoint's writing fails once. On
// a full disk the answer is an error that has the client try again, and the next
// try succeeds; any other error takes the directory, and nothing is acknowledged.
func TestDeleteRecordsWithoutRoom(t *testing.T) {
	kinds := map[string]faultfs.Predicate{
		"create":   faultfs.And(faultfs.OpIn(faultfs.OpCreate), faultfs.PathMatch(checkpoint.LogStartFile+"*")),
		"write":    faultfs.And(faultfs.OpIn(faultfs.OpWrite), faultfs.PathMatch(checkpoint.LogStartFile+"*")),
		"sync":     faultfs.And(faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData), faultfs.PathMatch(checkpoint.LogStartFile+"*")),
		"rename":   faultfs.And(faultfs.OpIn(faultfs.OpRename), faultfs.PathMatch(checkpoint.LogStartFile)),
		"sync dir": faultfs.And(faultfs.OpIn(faultfs.OpSyncDir), faultfs.PathMatch("/data")),
	}
	for name, at := range kinds {
		for _, full := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, full disk %v", name, full), func(t *testing.T) {
				n, h := leading(t, nil)
				n.send(h, 1, batchOf(5, -1, 0)).want(t, 0, 0)
				fault := faultfs.EIO()
				if full {
					fault = faultfs.ENOSPC(3)
				}
				hits := faultfs.NewCounter(at)
				toggle := faultfs.NewToggle(faultfs.First(hits, faultfs.When(at, fault)))
				toggle.On()
				n.dirs.All()[0].fs = faultfs.Wrap(n.disk, toggle)
				a := &answers{}
				h.DeleteRecords(3, model.Never, a, 0)
				n.flushAll()
				if want := []string{"56 -1"}; hits.Count() == 0 || !slices.Equal(a.deleted, want) {
					t.Fatalf("answers %v after %d failures, want %v", a.deleted, hits.Count(), want)
				}
				if online := n.dirs.All()[0].Online(); online != full {
					t.Fatalf("directory online: %v", online)
				}
				if !full {
					return
				}
				toggle.Off()
				b := &answers{}
				h.DeleteRecords(3, model.Never, b, 0)
				n.flushAll()
				if want := []string{"0 3"}; !slices.Equal(b.deleted, want) {
					t.Fatalf("with room: %v, want %v", b.deleted, want)
				}
				n.kill()
				n.start()
				if s := n.m.Get("t", 0).State(); s.LogStart != 3 {
					t.Errorf("starts at %d", s.LogStart)
				}
			})
		}
	}
}

// TestDeleteRecordsOnADiskThatHangs: the deadline answers, and the loop goes on.
func TestDeleteRecordsOnADiskThatHangs(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(5, -1, 0)).want(t, 0, 0)
	a := &answers{}
	h.DeleteRecords(3, n.rt.Now().Mono+1_000_000_000, a, 0)
	n.send(h, 1, batchOf(1, -1, 0)).want(t, 0, 5)
	n.rt.advance(1_500)
	if want := []string{"7 -1"}; !slices.Equal(a.deleted, want) {
		t.Fatalf("answers %v, want %v", a.deleted, want)
	}
	n.flushAll()
	b := &answers{}
	h.DeleteRecords(2, model.Never, b, 0) // the disk has it by now
	if want := []string{"0 3"}; len(a.deleted) != 1 || !slices.Equal(b.deleted, want) {
		t.Errorf("answers %v, then %v, want %v", a.deleted, b.deleted, want)
	}
}

// TestOneCheckpointForManyDeletes: who waits by the time of a write is served by
// it, and who comes meanwhile by the next.
func TestOneCheckpointForManyDeletes(t *testing.T) {
	n := newNode(t)
	n.start()
	n.register()
	n.create("t", 8)
	writes := faultfs.NewCounter(faultfs.And(faultfs.OpIn(faultfs.OpRename), faultfs.PathMatch(checkpoint.LogStartFile)))
	n.dirs.All()[0].fs = faultfs.Wrap(n.disk, writes)
	a := &answers{}
	ask := func(p int32, to model.Offset) { n.m.Get("t", p).DeleteRecords(to, model.Never, a, 0) }
	for p := range int32(8) {
		n.send(n.m.Get("t", p), 1, batchOf(4, -1, 0)).want(t, 0, 0)
		ask(p, 1)
		ask(p, 2)
	}
	jobs := n.flush["/data"].jobs
	if len(jobs) != 1 {
		t.Fatalf("%d jobs for the disk, want 1", len(jobs))
	}
	n.flush["/data"].jobs = nil
	jobs[0].Run()
	ask(0, 3) // the write doesn't have this one
	jobs[0].Done()
	n.rt.idle()
	if writes.Count() != 1 || len(a.deleted) != 16 {
		t.Fatalf("%d writes, %d answers, want 1 and 16", writes.Count(), len(a.deleted))
	}
	n.flushAll()
	if writes.Count() != 2 || len(a.deleted) != 17 || a.deleted[16] != "0 3" {
		t.Errorf("%d writes, answers %v", writes.Count(), a.deleted)
	}
}

// TestFollowerTellsADurableLogStart: the leader answers when the follower's disk
// has the log start as well, so that the follower, killed and elected, shows
// nothing that was deleted.
func TestFollowerTellsADurableLogStart(t *testing.T) {
	p := newPair(t, 1, nil)
	p.settle()
	p.produce(1, 20)
	n := p.nodes[1]
	toggle := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.OpIn(faultfs.OpRename), faultfs.PathMatch(checkpoint.LogStartFile)), faultfs.ENOSPC(0)))
	n.dirs.All()[0].fs = faultfs.Wrap(n.disk, toggle)
	toggle.On()
	a := &answers{}
	p.hosted(1).DeleteRecords(10, model.Never, a, 0)
	p.wait(3000)
	if s := p.hosted(2).State(); s.LogStart != 10 || len(a.deleted) != 0 {
		t.Fatalf("answers %v, the follower starts at %d and its disk has no room for that", a.deleted, s.LogStart)
	}
	toggle.Off()
	p.wait(3000)
	if want := []string{"0 10"}; !slices.Equal(a.deleted, want) {
		t.Fatalf("answers %v, want %v", a.deleted, want)
	}
	n.kill()
	n.start()
	n.apply(&metadata.BrokerEpochBump{ID: 2, Stop: metadata.StopProcess})
	if s := p.hosted(2).State(); s.LogStart != 10 || s.Role != partition.Follower {
		t.Errorf("after the kill: %+v", s.Mark)
	}
}
