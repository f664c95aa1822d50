package quorum

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// TestNoRoomForTheEpochFile: an entry is not stored, and none counts as committed
// on the disk, while the epoch file lacks its term: the next start holds what was
// committed against that file.
func TestNoRoomForTheEpochFile(t *testing.T) {
	w := newStorageWorld(t, 1)
	disk := w.fs
	full := faultfs.NewToggle(faultfs.When(
		faultfs.And(faultfs.OpIn(faultfs.OpWrite), faultfs.PathMatch("leader-epoch-checkpoint*")), faultfs.ENOSPC(3)))
	reload := func() {
		t.Helper()
		disk = disk.KillClone(memfs.Kill{})
		w.config.FS = faultfs.Wrap(disk, full)
		var err error
		if w.s, _, err = load(w.config, storageDir, w.now); err != nil {
			t.Fatal(err)
		}
	}
	save := func(term uint64, commit uint64, entries ...uint64) error {
		w.term = term
		rd := raft.Ready{HardState: &raftpb.HardState{Term: new(term), Vote: new(uint64(1)), Commit: new(commit)}}
		for _, index := range entries {
			rd.Entries = append(rd.Entries, w.entry(index))
		}
		return w.s.save(w.now, rd)
	}
	stored := func(term, commit uint64) {
		t.Helper()
		if h, err := readHardState(disk, storageDir); err != nil || h.Term != term || h.Commit != commit {
			t.Fatalf("stored is %+v, %v; want term %d, commit %d", h, err, term, commit)
		}
	}
	reload()
	must(t, save(2, 3, 2, 3))
	stored(2, 3)

	full.On()
	if err := save(3, 4, 4); !vfs.IsNoSpace(err) || errors.Is(err, errUnflushed) {
		t.Fatalf("an entry whose term could not be stored: %v", err)
	}
	stored(2, 3)
	// The entry stands in the log all the same. Others may have it from elsewhere and
	// commit it, and this member may vote.
	reload()
	if w.s.lastIndex() != 4 || w.s.durable() != 3 {
		t.Fatalf("last is %d, durable %d", w.s.lastIndex(), w.s.durable())
	}
	must(t, save(4, 4))
	stored(4, 3)
	if err := save(5, 5, 5); !vfs.IsNoSpace(err) {
		t.Fatal(err)
	}
	reload()

	full.Off()
	reload()
	must(t, save(6, 5))
	stored(6, 5)
	reload()
	if term, err := w.s.Term(5); err != nil || term != 5 || w.s.hard.Commit != 5 {
		t.Fatalf("term %d, %v, commit %d", term, err, w.s.hard.Commit)
	}
}

// TestStartsOnAFullDisk: a single voter that is started again and again on a disk
// with little room, which more is found on in between, never takes what it did there
// for damage, and shows no image older than one before.
func TestStartsOnAFullDisk(t *testing.T) {
	for room := int64(0); room < 500; room += 3 {
		disk := newDisk()
		n := startNode(t, settings{fs: disk})
		n.join()
		n.mustCreate("t", 1)
		acted := n.Image().At().Offset.Next()
		capacity := int64(0)
		for life := range 6 {
			what := fmt.Sprintf("room for %d bytes, life %d", room, life)
			disk = disk.KillClone(memfs.Kill{})
			disk.SetCapacity(0)
			switch life % 3 {
			case 0:
				free, total, err := disk.Free("data")
				must(t, err)
				capacity = total - free + room
				fallthrough
			case 1:
				disk.SetCapacity(capacity)
			}
			n = newTestNode(t, settings{fs: disk, config: func(c *Config) { c.Acted = acted }})
			if err := n.Start(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			at := n.Image().At().Offset.Next()
			if len(n.failures) > 0 || at < acted || n.Image().Topic("t") == nil {
				t.Fatalf("%s: failed %v, shows %d after %d", what, n.failures, at, acted)
			}
			if life%3 == 2 && n.phase != phaseMember {
				t.Fatalf("%s: phase %d", what, n.phase)
			}
			acted = at
		}
	}
}
