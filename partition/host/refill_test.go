package host

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/partition"
)

const firstSegment = "/data/t-0/00000000000000000000.log"

// damagedFollower is a pair whose follower found its first batch damaged while it
// ran.
func damagedFollower(t *testing.T) *pair {
	t.Helper()
	p := newPair(t, 1, nil)
	p.settle()
	p.produce(1, 3).want(t, 0, 0)
	p.produce(1, 4).want(t, 0, 3)
	n := p.nodes[1]
	n.rt.advance(200_000) // flushed, and the recovery point written
	p.settle()
	n.rt.advance(200_000)
	p.settle()
	n.rot(firstSegment, 70, 0)
	f, err := n.fs.OpenFile(firstSegment, os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	p.hosted(2).Verify(0)
	p.settle()
	if s := p.hosted(2).State(); s.Role != partition.Offline {
		t.Fatalf("the follower has %+v", s.Mark)
	}
	return p
}

// leftAside lists the directories of the second node that were set aside.
func leftAside(n *node) (dirs []string) {
	n.t.Helper()
	names, err := n.fs.List("/data")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "-stray") {
			dirs = append(dirs, name)
		}
	}
	return dirs
}

// A damaged replica stays as it is while the cluster counts on it. Once it does not,
// it is filled anew beside its old files without a restart; when it is in sync they
// go to the kept bytes, with a receipt.
func TestDamagedReplicaIsFilledAnew(t *testing.T) {
	p := damagedFollower(t)
	n := p.nodes[1]
	p.wait(3000)
	if s := p.hosted(2).State(); s.Role != partition.Offline || len(leftAside(n)) != 0 {
		t.Fatalf("a member was filled anew: %+v, %v", s.Mark, leftAside(n))
	}
	before, err := vfs.ReadFile(n.fs, firstSegment)
	if err != nil {
		t.Fatal(err)
	}
	p.elect(1, 1)
	p.wait(3000)
	p.same()
	if s := p.hosted(2).State(); s.Role != partition.Follower || s.LogEnd != 7 {
		t.Fatalf("%+v: %s", s.Mark, s.Reason)
	}
	dirs := leftAside(n)
	if len(dirs) != 1 || len(n.receipts()) != 0 {
		t.Fatalf("before it is in sync: %v, %+v", dirs, n.receipts())
	}
	if b, err := vfs.ReadFile(n.fs, "/data/"+dirs[0]+"/00000000000000000000.log"); err != nil || string(b) != string(before) {
		t.Errorf("the damaged file was changed: %v", err)
	}
	p.elect(1, 1, 2)
	p.wait(3000)
	r := n.onlyReceipt()
	if r.Cause != receipt.Refill || r.Topic != "t" || r.Start != 0 || !r.BelowHighWatermark || r.Bytes < int64(len(before)) {
		t.Errorf("%+v", r)
	}
	if b, err := vfs.ReadFile(n.fs, keptDir+"/"+r.Kept+"/00000000000000000000.log"); err != nil || string(b) != string(before) {
		t.Errorf("what is kept is not the damaged file: %d bytes, %v", len(b), err)
	}
	if dirs := leftAside(n); len(dirs) != 0 {
		t.Errorf("left: %v", dirs)
	}
	p.produce(1, 2).want(t, 0, 7)
	p.wait(1000)
	p.same()
}

// What was set aside is found by the next process, and goes once the replica is in
// sync; an operator's stray directory does not.
func TestWhatWasSetAsideIsFoundAgain(t *testing.T) {
	p := damagedFollower(t)
	n := p.nodes[1]
	p.elect(1, 1)
	p.wait(3000)
	if err := n.fs.MkdirAll("/data/t-0.11111111111111111111111111111111-stray", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := n.fs.SyncDir("/data"); err != nil {
		t.Fatal(err)
	}
	n.power()
	n.start()
	n.m.Registered(n.epoch)
	p.elect(1, 1, 2)
	p.wait(3000)
	n.onlyReceipt()
	if dirs := leftAside(n); len(dirs) != 1 || !strings.Contains(dirs[0], "1111") {
		t.Errorf("left: %v", dirs)
	}
}

// A kill or a loss of power at any disk call of a refill, and while the old files
// go, leaves what the next process makes whole: the old bytes are in one place at least
// until the replica is in sync and a receipt names them. What the disk had refused, and
// still stands under its own name, is opened as by any start, in doubt if an fsync of it
// failed; then there is nothing to fill anew.
func TestRefillAtEveryCrash(t *testing.T) {
	spoilt := map[string]func() *pair{"damage": func() *pair { return damagedFollower(t) }}
	for _, name := range []string{"read", "fsync"} {
		spoilt[name] = func() *pair {
			p, on := refusedFollower(t, diskRefusals[name])
			on.Off()
			return p
		}
	}
	for name, spoil := range spoilt { // order-free
		t.Run(name, func(t *testing.T) { refillAtEveryCrash(t, spoil, name) })
	}
}

func refillAtEveryCrash(t *testing.T, spoil func() *pair, name string) {
	for k := int64(1); ; k++ {
		p := spoil()
		n, end := p.nodes[1], p.hosted(1).State().LogEnd
		before := content(t, n, firstSegment)
		f := &dieFrom{k: k}
		disk := n.disk
		n.m.deps.FS = faultfs.Wrap(disk, f)
		for _, d := range n.dirs.All() {
			d.fs = n.m.deps.FS
		}
		n.m.keeper().store = receipt.New(receipt.Options{FS: n.m.deps.FS, Dir: keptDir, Node: 2, BytesMax: 1 << 20, RetentionMs: -1})
		p.elect(1, 1)
		p.wait(1500)
		if f.n < k {
			p.elect(1, 1, 2)
		}
		p.wait(1500)
		died := f.n >= k
		for _, power := range []bool{false, true} {
			q := restarted(p, disk, power)
			n := q.nodes[1]
			if !died && len(n.receipts()) != 1 {
				t.Fatalf("nothing failed, and there is no receipt")
			}
			inPlace := name != "damage" && q.dirs[0] && !q.dirs[1] && len(n.receipts()) == 0
			if inPlace && name == "fsync" && !q.doubtful {
				t.Fatalf("call %d, power %v: the refused log passes for sound", k, power)
			}
			q.elect(1, 1)
			q.wait(3000)
			q.elect(1, 1, 2)
			q.wait(3000)
			kept, want := 0, 1
			if inPlace {
				want = 0
			}
			for _, r := range n.receipts() {
				if b, err := vfs.ReadFile(n.fs, keptDir+"/"+r.Kept+"/00000000000000000000.log"); r.Cause == receipt.Refill && r.Kept != "" && err == nil && string(b) == before {
					kept++
				}
			}
			if s := q.hosted(2).State(); s.Role != partition.Follower || s.LogEnd != end {
				t.Fatalf("call %d, power %v: %+v %s", k, power, s.Mark, s.Reason)
			}
			if dirs := leftAside(n); kept != want || len(dirs) != 0 {
				t.Fatalf("call %d, power %v: %d copies, want %d, left %v, receipts %+v", k, power, kept, want, dirs, n.receipts())
			}
			if _, err := n.fs.Stat("/data/t-0/" + log.FailedNote); err == nil {
				t.Fatalf("call %d, power %v: what is open is noted as refused", k, power)
			}
			if v := &n.dirs.All()[0].doubts; len(v.own)+len(v.inherited) > 0 {
				t.Fatalf("call %d, power %v: it is still in doubt", k, power)
			}
		}
		if !died {
			if k < 20 {
				t.Fatalf("only %d calls", k)
			}
			return
		}
	}
}

// restart is a pair after its second node's start. dirs: there was a directory of the
// partition, and one that was set aside. doubtful: the log was in doubt.
type restart struct {
	*pair
	dirs     [2]bool
	doubtful bool
}

// restarted is the pair with its second node started again on a disk.
func restarted(p *pair, disk *memfs.FS, power bool) *restart {
	p.t.Helper()
	q := &restart{pair: &pair{t: p.t, parts: p.parts, nodes: p.nodes, wires: p.wires}}
	old := p.nodes[1]
	next := *old
	next.disk = disk.KillClone(memfs.Kill{})
	if power {
		next.disk = disk.CrashClone(memfs.Crash{})
		next.boot += "+"
	}
	next.fs, next.img = next.disk, p.nodes[0].img
	q.nodes[1] = &next
	for i := range q.wires {
		w := *p.wires[i]
		w.p, w.queue, w.parked, w.sessions = q.pair, nil, nil, nil
		q.wires[i] = &w
	}
	next.leaders = q.wires[1]
	_, err := next.fs.Stat("/data/t-0")
	q.dirs = [2]bool{err == nil, len(leftAside(&next)) > 0}
	next.start()
	q.doubtful = len(next.m.Doubtful()) > 0
	next.m.Registered(next.epoch)
	return q
}

// dieFrom fails every call that changes something from the k-th on.
type dieFrom struct{ n, k int64 }

func (*dieFrom) String() string { return "die" }

func (d *dieFrom) Decide(op faultfs.Op) *faultfs.Fault {
	if op.Kind.Mutates() {
		d.n++
	}
	if d.n >= d.k && op.Kind.Mutates() {
		return faultfs.EIO()
	}
	return nil
}

// What a replica has asked its leader for before it failed may arrive late, and in the
// same leader epoch it would count for the new log: that is begun in a later one.
func TestFilledAnewInALaterEpoch(t *testing.T) {
	p := damagedFollower(t)
	n := p.nodes[1]
	if f := n.m.FailedReplicas(); len(f) != 1 || f[0].Heard != 0 {
		t.Fatalf("%+v", f)
	}
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.ISR = []model.BrokerID{1}
	p.apply(c)
	p.wait(3000)
	if s := p.hosted(2).State(); s.Role != partition.Offline || len(leftAside(n)) != 0 {
		t.Fatalf("in the epoch of the old log: %+v, %v", s.Mark, leftAside(n))
	}
	p.elect(1, 1)
	p.wait(3000)
	p.same()
	if s := p.hosted(2).State(); s.Role != partition.Follower || s.LogEnd != 7 {
		t.Fatalf("%+v: %s", s.Mark, s.Reason)
	}
}
