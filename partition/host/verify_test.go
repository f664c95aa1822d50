package host

import (
	"os"
	"testing"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
)

// rot flips a bit of a file under whoever has it open.
func (n *node) rot(path string, at int64, bit byte) {
	n.t.Helper()
	f, err := n.disk.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	b := []byte{0}
	if _, err := f.ReadAt(b, at); err != nil {
		n.t.Fatal(err)
	}
	b[0] ^= 1 << bit
	if _, err := f.WriteAt(b, at); err != nil {
		n.t.Fatal(err)
	}
}

// TestDamagedLeader: a follower that gets damaged records over two connections has
// the leader look at what it has. The leader is quarantined, nothing of the damage
// was copied, and the next start finds it again.
func TestDamagedLeader(t *testing.T) {
	// In the records, the base offset, the length, the epoch.
	for at, bit := range map[int64]byte{70: 0, 7: 1, 10: 0, 15: 0} {
		p := newPair(t, 1, nil)
		p.settle()
		p.produce(1, 3).want(t, 0, 0)
		p.wires[1].cut = true
		p.settle()
		leader := p.nodes[0]
		path := "/data/t-0/00000000000000000000.log"
		first := p.hosted(1).State().View.Size()
		leader.send(p.hosted(1), 1, batchOf(2, -1, 0)).want(t, 0, 3)
		leader.rot(path, first+at, bit)
		p.wires[1].cut = false
		p.wait(6000)
		if s := p.hosted(1).State(); s.Role != partition.Offline || s.Code != partition.CodeStorageError {
			t.Errorf("byte %d: the leader has %+v, %d", at, s.Mark, s.Code)
		}
		if s := p.hosted(2).State(); s.LogEnd != 3 {
			t.Errorf("byte %d: the follower has %+v", at, s.Mark)
		}
		if got := leader.m.FailedReplicas(); len(got) != 1 {
			t.Errorf("byte %d: %d failed replicas", at, len(got))
		}
		before, err := vfs.ReadFile(leader.disk, path)
		if err != nil {
			t.Fatal(err)
		}
		leader.stop()
		leader.start()
		if s := p.hosted(1).State(); s.Role != partition.Offline {
			t.Errorf("byte %d: after a restart the leader has %+v", at, s.Mark)
		}
		if after, err := vfs.ReadFile(leader.disk, path); err != nil || string(after) != string(before) {
			t.Errorf("byte %d: the file was changed, %v", at, err)
		}
	}
}

// TestEpochThatNeverWas: a start that finds the first batch of a segment and the
// epoch file at odds believes the batch. If it was the batch that a disk has changed,
// to an epoch which is still to come, the cluster's word on who leads in which epoch
// finds it out: led on, the log would hold epochs that fall.
func TestEpochThatNeverWas(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.stop()
	n.rot(firstSegment, 13, 0)
	before, err := vfs.ReadFile(n.disk, firstSegment)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n.start()
		if s := n.m.Get("t", 0).State(); s.Role == partition.Offline {
			t.Logf("found at the start: %s", s.Reason)
		}
		n.register()
		n.flushAll() // what is left of it is looked at before it is told of
		s := n.m.Get("t", 0).State()
		if s.Role != partition.Offline || s.Code != partition.CodeStorageError || len(n.m.FailedReplicas()) != 1 {
			t.Errorf("a batch of an epoch to come is led on: %+v", s.Mark)
		}
		n.stop()
	}
	if after, err := vfs.ReadFile(n.disk, firstSegment); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed, %v", err)
	}
}

// TestEmptyEpochOfBefore: an epoch of the file that no batch is of is nothing to worry
// about.
func TestEmptyEpochOfBefore(t *testing.T) {
	n, h := leading(t, nil)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.stop()
	path := "/data/t-0/" + checkpoint.EpochFile
	text, err := vfs.ReadFile(n.disk, path)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := checkpoint.ReadEpochs(n.disk, path)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%q: %v, %v", text, entries, err)
	}
	if err := vfs.WriteFileAtomic(n.disk, path, []byte("0\n2\n0 0\n900 3\n")); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.register()
	n.send(n.m.Get("t", 0), 1, batchOf(1, -1, 0)).want(t, 0, 3)
}

// TestSoundLeader: a leader whose copy is sound says so and goes on, and gives
// nothing of it before it has looked.
func TestSoundLeader(t *testing.T) {
	p := newPair(t, 1, nil)
	p.settle()
	p.wires[1].damage = 3
	a := p.produce(1, 3)
	p.wait(5000)
	a.want(t, 0, 0)
	p.wait(600)
	p.same()
	if s := p.hosted(1).State(); s.Role != partition.Leader {
		t.Errorf("the leader has %+v", s.Mark)
	}
}

// TestVerify: whoever meets damage can have the segment verified; what is damaged
// elsewhere is no reason.
func TestVerify(t *testing.T) {
	n := newNode(t)
	n.start()
	n.register()
	n.create("t", 1)
	h := n.m.Get("t", 0)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	first := h.State().View.Size()
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 3)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 6)
	n.rot("/data/t-0/00000000000000000000.log", first+8, 0)
	h.Verify(4)
	n.rt.idle()
	n.flushAll()
	n.rt.idle()
	if s := h.State(); s.Role != partition.Offline || s.Code != partition.CodeStorageError {
		t.Errorf("%+v", s.Mark)
	}
}
