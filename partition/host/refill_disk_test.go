package host

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/partition"
)

// refusal is a way in which the disk of a follower refuses its log.
type refusal struct {
	// fault is of calls for the first segment of t-0, or its directory.
	fault faultfs.Injector
	// strike has it happen.
	strike func(p *pair, on *faultfs.Toggle)
}

var (
	syncCalls    = faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData)
	diskRefusals = map[string]refusal{
		"read": {
			fault:  faultfs.When(faultfs.And(faultfs.PathMatch(firstSegment), faultfs.OpIn(faultfs.OpRead)), faultfs.EIO()),
			strike: func(p *pair, _ *faultfs.Toggle) { p.hosted(2).Verify(0); p.settle() }, // as whoever reads for a fetch does
		},
		"append": {
			fault:  faultfs.When(faultfs.And(faultfs.PathMatch(firstSegment), faultfs.OpIn(faultfs.OpWrite)), faultfs.EIO()),
			strike: func(p *pair, _ *faultfs.Toggle) { p.produce(1, 1) },
		},
		"fsync": {
			fault:  faultfs.When(faultfs.And(faultfs.PathMatch(firstSegment), syncCalls), faultfs.FsyncFails()),
			strike: func(p *pair, _ *faultfs.Toggle) { p.produce(1, 1); p.hosted(2).box.Enter(&flushOldMsg{}); p.settle() },
		},
		"open": {
			fault:  faultfs.When(faultfs.And(faultfs.PathMatch(firstSegment), faultfs.OpIn(faultfs.OpRead, faultfs.OpOpen)), faultfs.EIO()),
			strike: startAgain,
		},
		"stat": {
			fault:  faultfs.When(faultfs.And(faultfs.PathMatch(firstSegment), faultfs.OpIn(faultfs.OpStat)), faultfs.EIO()),
			strike: startAgain,
		},
	}
)

// startAgain has the follower killed and started again, with faults on its disk.
func startAgain(p *pair, on *faultfs.Toggle) {
	n := p.nodes[1]
	n.kill()
	n.fs = faultfs.Wrap(n.disk, on)
	n.start()
	n.m.Registered(n.epoch)
}

// refusedFollower is a pair of which the follower's disk refused the log.
func refusedFollower(t *testing.T, how refusal) (p *pair, on *faultfs.Toggle) {
	t.Helper()
	p, on = followerBehind(t, how.fault)
	on.On()
	how.strike(p, on)
	if s := p.hosted(2).State(); s.Role != partition.Offline || s.Code != partition.CodeStorageError {
		t.Fatalf("the follower has %+v", s.Mark)
	}
	return p, on
}

// followerBehind is a pair with seven records, of which the second's disk does what
// fault says once it is on.
func followerBehind(t *testing.T, fault faultfs.Injector) (*pair, *faultfs.Toggle) {
	t.Helper()
	p := newPair(t, 1, nil)
	p.settle()
	p.produce(1, 3).want(t, 0, 0)
	p.produce(1, 4).want(t, 0, 3)
	n := p.nodes[1]
	for range 2 { // flushed, and the recovery point written
		n.rt.advance(200_000)
		p.settle()
	}
	on := faultfs.NewToggle(fault)
	startAgain(p, on)
	p.elect(1, 1, 2)
	p.wait(1000)
	if s := p.hosted(2).State(); s.Role != partition.Follower || s.LogEnd != 7 {
		t.Fatalf("the follower has %+v: %s", s.Mark, s.Reason)
	}
	return p, on
}

// content reads a file past the faults.
func content(t *testing.T, n *node, path string) string {
	t.Helper()
	b, err := vfs.ReadFile(n.disk, path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A replica that the disk has refused stays as it is while the cluster counts on it.
// Once it does not, it is filled anew beside its old files without a restart; when it
// is in sync they go to the kept bytes, with a receipt. Nothing is left of a note of a
// failed fsync.
func TestRefusedReplicaIsFilledAnew(t *testing.T) {
	for name, how := range diskRefusals { // order-free
		t.Run(name, func(t *testing.T) {
			p, on := refusedFollower(t, how)
			n := p.nodes[1]
			end := p.hosted(1).State().LogEnd
			p.wait(3000)
			if s := p.hosted(2).State(); s.Role != partition.Offline || len(leftAside(n)) != 0 {
				t.Fatalf("a member was filled anew: %+v, %v", s.Mark, leftAside(n))
			}
			before := content(t, n, firstSegment)
			on.Off()
			p.elect(1, 1)
			p.wait(3000)
			p.same()
			if s := p.hosted(2).State(); s.Role != partition.Follower || s.LogEnd != end {
				t.Fatalf("%+v: %s", s.Mark, s.Reason)
			}
			dirs := leftAside(n)
			if len(dirs) != 1 || len(n.receipts()) != 0 {
				t.Fatalf("before it is in sync: %v, %+v", dirs, n.receipts())
			}
			if content(t, n, "/data/"+dirs[0]+"/00000000000000000000.log") != before {
				t.Error("the refused file was changed")
			}
			p.elect(1, 1, 2)
			p.wait(3000)
			r := n.onlyReceipt()
			if r.Cause != receipt.Refill || r.Topic != "t" || !strings.Contains(r.Detail, "disk") || r.Bytes < int64(len(before)) {
				t.Errorf("%+v", r)
			}
			if content(t, n, keptDir+"/"+r.Kept+"/00000000000000000000.log") != before {
				t.Error("what is kept is not the refused file")
			}
			if dirs := leftAside(n); len(dirs) != 0 {
				t.Errorf("left: %v", dirs)
			}
			p.produce(1, 2).want(t, 0, end)
			p.wait(1000)
			p.same()
			n.kill()
			n.start()
			if bad := n.m.Doubtful(); len(bad) != 0 || n.dirs.Report().Stop != log.StopProcess {
				t.Errorf("at the next start, after stop %s, in doubt: %v", n.dirs.Report().Stop, bad)
			}
			if s := p.hosted(2).State(); s.LogEnd != end+2 || s.View == nil {
				t.Errorf("after the next start: %+v: %s", s.Mark, s.Reason)
			}
		})
	}
}

// badSector fails reads of a file, whatever becomes of its name; files that come to
// stand under that are others.
type badSector struct{ path string }

func (*badSector) String() string { return "(bad sector)" }

func (b *badSector) Decide(op faultfs.Op) *faultfs.Fault {
	rest, below := strings.CutPrefix(b.path, op.Path+"/")
	switch {
	case op.Kind == faultfs.OpRename && below:
		b.path = op.NewPath + "/" + rest
	case op.Kind == faultfs.OpRead && op.Path == b.path:
		return faultfs.EIO()
	}
	return nil
}

// A sector that stays bad costs one copy, and of the old files the one that it is in.
func TestBadSectorHeals(t *testing.T) {
	bad := &badSector{path: firstSegment}
	p, on := refusedFollower(t, refusal{fault: bad, strike: startAgain})
	n := p.nodes[1]
	p.elect(1, 1)
	p.wait(3000)
	p.elect(1, 1, 2)
	p.wait(3000)
	p.same()
	if s := p.hosted(2).State(); s.Role != partition.Follower || s.LogEnd != 7 {
		t.Fatalf("%+v: %s", s.Mark, s.Reason)
	}
	r := n.onlyReceipt()
	if r.Kept == "" || !strings.Contains(r.Detail, "00000000000000000000.log can't be read") {
		t.Errorf("%+v", r)
	}
	content(t, n, keptDir+"/"+r.Kept+"/partition.metadata")
	if bad.path == firstSegment || len(leftAside(n)) != 0 {
		t.Errorf("left: %v", leftAside(n))
	}
	startAgain(p, on)
	if s := p.hosted(2).State(); s.Role == partition.Offline {
		t.Errorf("after another start: %s", s.Reason)
	}
}

// aging lets minutes pass, and returns how often a directory was set aside and a new one
// made meanwhile. A replica that fails again is given a new leader epoch, as by the
// controller.
func (p *pair) aging(calls *faultfs.Counter, minutes int) int64 {
	before := calls.Count()
	for range minutes * 30 {
		p.nodes[0].rt.advance(2000)
		p.settle()
		if f := p.nodes[1].m.FailedReplicas(); len(f) == 1 && f[0].Heard >= p.hosted(1).State().LeaderEpoch {
			p.elect(1, 1)
		}
	}
	return calls.Count() - before
}

// A disk that fails for good is tried ever more rarely, whatever it fails at, and is not
// filled with what was set aside; when it works again the replica comes back by itself.
// One on which no name can be made and synced is not tried again at all.
func TestDiskThatFailsForGood(t *testing.T) {
	under := faultfs.Under("/data/t-0")
	for name, c := range map[string]struct { // order-free
		fails faultfs.Predicate
		// aside is what may be set aside meanwhile.
		aside int
		gone  bool
	}{
		"note":      {fails: faultfs.And(under, faultfs.OpIn(faultfs.OpCreate)), aside: 0},
		"directory": {fails: faultfs.And(faultfs.PathMatch("/data/t-0"), faultfs.OpIn(faultfs.OpMkdir)), aside: 1},
		"append":    {fails: faultfs.And(faultfs.PathMatch("*.log"), faultfs.OpIn(faultfs.OpWrite)), aside: 1},
		"fsync":     {fails: faultfs.And(faultfs.PathMatch("*.log"), syncCalls), aside: 1},
		"names":     {fails: faultfs.OpIn(faultfs.OpSyncDir), gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			once := faultfs.NewToggle(diskRefusals["append"].fault)
			always := faultfs.NewToggle(faultfs.When(c.fails, faultfs.EIO()))
			tries := faultfs.NewCounter(faultfs.And(faultfs.Under("/data"), faultfs.Or(
				faultfs.OpIn(faultfs.OpRename, faultfs.OpMkdir), faultfs.And(faultfs.OpIn(faultfs.OpCreate), faultfs.PathMatch("*"+log.FailedNote+"*")))))
			p, on := followerBehind(t, faultfs.First(once, always, tries))
			on.On()
			once.On()
			p.produce(1, 1)
			n := p.nodes[1]
			if s := p.hosted(2).State(); s.Role != partition.Offline {
				t.Fatalf("%+v", s.Mark)
			}
			always.On()
			once.Off()
			p.elect(1, 1)
			most := 0
			for range 24 {
				p.aging(tries, 5)
				most = max(most, len(leftAside(n)))
				p.produce(1, 1) // so that there is something to sync
			}
			if s := p.hosted(2).State(); s.Role != partition.Offline && name != "fsync" || most > c.aside+1 {
				t.Errorf("%+v, %d set aside at a time", s.Mark, most)
			}
			// At most one try in two hours, whatever calls it takes; there were 7.
			more := p.aging(tries, 120)
			t.Logf("%d set aside at most, in two more hours %d calls", most, more)
			if more > 30 || c.gone && more > 0 {
				t.Errorf("%d calls in two hours", more)
			}
			if c.gone {
				if n.dirs.Online() != 0 {
					t.Error("the directory is in use")
				}
				return
			}
			always.Off()
			p.aging(tries, 61)
			p.elect(1, 1, 2)
			p.aging(tries, 61)
			p.same()
			if s := p.hosted(2).State(); s.Role != partition.Follower || s.LogEnd != p.hosted(1).State().LogEnd {
				t.Errorf("once the disk works: %+v: %s", s.Mark, s.Reason)
			}
			if dirs := leftAside(n); len(dirs) != 0 {
				t.Errorf("left: %v", dirs)
			}
			if n.dirs.Online() != 1 {
				t.Error(n.dirs.All()[0].Failure())
			}
		})
	}
}

// What the metadata of before a registration say of the replica was another life's.
func TestNothingIsFilledAnewBeforeTheRegistration(t *testing.T) {
	p, on := followerBehind(t, diskRefusals["open"].fault)
	n := p.nodes[1]
	p.elect(1, 1)
	on.On()
	n.kill()
	n.fs = faultfs.Wrap(n.disk, on)
	n.start()
	p.wait(3000)
	if dirs := leftAside(n); len(dirs) != 0 {
		t.Fatalf("set aside: %v", dirs)
	}
	on.Off()
	n.m.Registered(n.epoch)
	p.elect(1, 1)
	p.wait(3000)
	p.same()
	if dirs := leftAside(n); len(dirs) != 1 {
		t.Errorf("set aside: %v", dirs)
	}
}

// A directory of which the disk does not say whose it is gives its name away, but
// stays: it may be another topic's.
func TestNamelessDirectoryStays(t *testing.T) {
	unnamed := faultfs.When(faultfs.And(faultfs.PathMatch("/data/t-0/partition.metadata"), faultfs.OpIn(faultfs.OpOpen, faultfs.OpRead)), faultfs.EIO())
	p, on := refusedFollower(t, refusal{fault: unnamed, strike: startAgain})
	n := p.nodes[1]
	before := content(t, n, firstSegment)
	on.Off()
	p.elect(1, 1)
	p.wait(3000)
	p.elect(1, 1, 2)
	p.wait(3000)
	p.same()
	dirs := leftAside(n)
	if len(dirs) != 1 || len(n.receipts()) != 0 {
		t.Fatalf("set aside: %v, receipts %+v", dirs, n.receipts())
	}
	if content(t, n, "/data/"+dirs[0]+"/00000000000000000000.log") != before {
		t.Error("the file was changed")
	}
}

// A topic that goes while its replica can't be made anew costs the directory nothing.
func TestRefusedReplicaIsRemoved(t *testing.T) {
	p, on := refusedFollower(t, diskRefusals["append"])
	on.Off()
	n := p.nodes[1]
	never := faultfs.When(faultfs.And(faultfs.PathMatch("/data/t-0"), faultfs.OpIn(faultfs.OpMkdir)), faultfs.EIO())
	for _, d := range n.dirs.All() {
		d.fs = faultfs.Wrap(n.disk, never)
	}
	p.elect(1, 1)
	p.wait(3000)
	p.apply(&metadata.RemoveTopic{ID: topicID("t")})
	p.wait(3000)
	if d := n.dirs.All()[0]; !d.Online() || len(leftAside(n)) != 1 || d.inventory.lists(model.TopicIDPartition{TopicID: topicID("t")}) {
		t.Errorf("set aside %v, %v", leftAside(n), d.Failure())
	}
}

// A full disk, a forbidden file and a want of descriptors are no bad disk.
func TestWhatCountsAsRefused(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{syscall.EIO, true}, {fmt.Errorf("read: %w", syscall.EBADMSG), true}, {fmt.Errorf("flush: %w", log.ErrPoisoned), true},
		{nil, false}, {syscall.ENOSPC, false}, {syscall.EDQUOT, false}, {os.ErrPermission, false}, {syscall.EMFILE, false},
		{log.ErrClosed, false}, {os.ErrNotExist, false},
	} {
		if got := diskErrorOf(tt.err) != nil; got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
