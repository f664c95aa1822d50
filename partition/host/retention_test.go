package host

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// set changes settings of a partition in a way that a topic could not, so that
// segments stay small.
func (n *node) set(h *Hosted, change func(c *config.Topic)) {
	topic := *h.State().Config
	change(&topic)
	h.box.Enter(&configMsg{topic: &topic})
}

// agedBatch is one record of 100 bytes with a timestamp.
func agedBatch(ts model.Timestamp) record.Batch {
	b := record.NewBuilder(record.Options{})
	b.Append(ts, []byte("key"), make([]byte, 100))
	return b.Build()
}

const (
	minute = 60_000
	hour   = 60 * minute
)

// retaining is a node that leads t-0 with segments of one batch each, the times
// of which are minutes since the node's start.
func retaining(t testing.TB, overrides map[string]string, minutes ...int) (*node, *Hosted) {
	return newNode(t).retaining(overrides, minutes...)
}

func (n *node) retaining(overrides map[string]string, minutes ...int) (*node, *Hosted) {
	n.topic["t"] = overrides
	n.start()
	n.register()
	n.create("t", 1)
	h := n.m.Get("t", 0)
	n.set(h, func(c *config.Topic) { c.SegmentBytes = 200 })
	for _, m := range minutes {
		n.send(h, 1, agedBatch(n.rt.Now().Wall+model.Timestamp(m)*minute))
	}
	n.flushAll()
	return n, h
}

// pictures takes pictures of a node's disk, as a death leaves it, before the
// k-th change from when it is armed.
type pictures struct {
	disk  *memfs.FS
	armed bool
	left  int
	die   func(*memfs.FS) *memfs.FS
	taken *memfs.FS
}

func (p *pictures) Match(op faultfs.Op) bool {
	if p.armed && p.taken == nil && op.Kind.Mutates() {
		if p.left == 0 {
			p.taken = p.die(p.disk.Fork())
		}
		p.left--
	}
	return false
}

func (p *pictures) String() string { return "(watch)" }

// wait lets time pass in steps in which the flushers get to run.
func (n *node) wait(minutes int) {
	for range minutes {
		n.rt.advance(minute)
		n.flushAll()
	}
}

// bases names the segment files of t-0, "-" before those that await their end.
func (n *node) bases() string {
	names, err := n.disk.List("/data/t-0")
	if err != nil {
		return err.Error()
	}
	var found []string
	for _, name := range names {
		var base int
		if _, err := fmt.Sscanf(name, "%d", &base); err != nil {
			continue
		}
		switch {
		case strings.HasSuffix(name, ".log"):
			found = append(found, fmt.Sprint(base))
		case strings.HasSuffix(name, ".deleted"):
			found = append(found, fmt.Sprint("-", base))
		}
	}
	return strings.Join(found, " ")
}

func TestRetentionByAge(t *testing.T) {
	n, h := retaining(t, map[string]string{"retention.ms": fmt.Sprint(hour)}, 0, 10, 20, 30)
	n.wait(60)
	if got := n.bases(); got != "0 1 2 3" {
		t.Fatalf("after an hour there are %s", got)
	}
	n.wait(10)
	if s := h.State(); s.LogStart != 1 || s.View.Start() != 1 {
		t.Fatalf("starts at %d, its view at %d", s.LogStart, s.View.Start())
	}
	n.wait(1)
	if got := n.bases(); got != "1 2 3" {
		t.Fatalf("a minute later there are %s", got)
	}
	if s := n.m.Stats(); s.DroppedSegments != 1 || s.DroppedBytes < 160 {
		t.Fatalf("counted %+v", s)
	}
	// The one that is being written goes too, behind a new one; the log goes on
	// at the same offset.
	n.wait(30)
	if s := h.State(); s.LogStart != 4 || s.LogEnd != 4 || n.bases() != "4" {
		t.Fatalf("[%d, %d) in %s", s.LogStart, s.LogEnd, n.bases())
	}
	n.send(h, 1, agedBatch(n.rt.Now().Wall)).want(t, 0, 4)
}

// A removed segment is read on by whoever has it, until the delay has passed and
// the last reader has left.
func TestRetentionWaitsForReaders(t *testing.T) {
	n, h := retaining(t, map[string]string{"retention.bytes": "250", "file.delete.delay.ms": "600000"}, 0, 0, 0, 0)
	before := h.State().View
	r, err := before.Read(0, 1, 1000, true)
	if err != nil {
		t.Fatal(err)
	}
	n.wait(6)
	if got := n.bases(); got != "-0 -1 2 3" {
		t.Fatalf("there are %s", got)
	}
	if b := make([]byte, r.Len()); r.Len() == 0 {
		t.Fatal("nothing was read")
	} else if _, err := r.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	} else if err := record.Batch(b).CheckCRC(); err != nil {
		t.Fatal(err)
	}
	n.wait(11)
	if got := n.bases(); got != "-0 2 3" {
		t.Fatalf("with a reader left there are %s", got)
	}
	r.Release()
	n.wait(1)
	if got := n.bases(); got != "2 3" {
		t.Fatalf("without readers there are %s", got)
	}
}

func TestRetentionPolicies(t *testing.T) {
	for _, c := range []struct {
		name string
		with map[string]string
		want string
	}{
		{"size", map[string]string{"retention.bytes": "0", "retention.ms": "-1"}, "4"},
		{"age", map[string]string{"retention.ms": "60000"}, "4"},
		{"kept for ever", map[string]string{"retention.bytes": "-1", "retention.ms": "-1"}, "0 1 2 3"},
		{"compacted", map[string]string{"retention.bytes": "0", "retention.ms": "0", "cleanup.policy": "compact"}, "0 1 2 3"},
		{"both", map[string]string{"retention.bytes": "0", "cleanup.policy": "compact,delete"}, "4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, _ := retaining(t, c.with, 0, 0, 0, 0)
			n.wait(12)
			if got := n.bases(); got != c.want {
				t.Errorf("there are %s, want %s", got, c.want)
			}
		})
	}
}

// New settings count from the next look on.
func TestRetentionIsChangedWhileRunning(t *testing.T) {
	n, h := retaining(t, nil, 0, 0, 0, 0)
	n.wait(12)
	if got := n.bases(); got != "0 1 2 3" {
		t.Fatalf("there are %s", got)
	}
	n.set(h, func(c *config.Topic) { c.RetentionBytes = 0 })
	n.wait(7)
	if got := n.bases(); got != "4" {
		t.Fatalf("there are %s", got)
	}
}

// What DeleteRecords took is gone from the disk at the next look, also from a
// topic without retention; the checkpoint knows of it first.
func TestDeletedRecordsLeaveTheDisk(t *testing.T) {
	n, h := retaining(t, map[string]string{"retention.ms": "-1"}, 0, 0, 0, 0)
	a := &answers{}
	h.DeleteRecords(3, n.rt.Now().Mono+30_000_000_000, a, 0)
	n.flushAll()
	if want := []string{"0 3"}; !slices.Equal(a.deleted, want) {
		t.Fatalf("answers %v, want %v", a.deleted, want)
	}
	n.wait(7)
	if got := n.bases(); got != "3" {
		t.Fatalf("there are %s", got)
	}
	n.kill()
	n.start()
	if s := n.m.Get("t", 0).State(); s.LogStart != 3 || s.LogEnd != 4 {
		t.Fatalf("after a kill it is [%d, %d)", s.LogStart, s.LogEnd)
	}
}

// A clock that jumps ahead by years deletes nothing for a day; one that comes
// back is believed at once.
func TestRetentionDoubtsAJumpingClock(t *testing.T) {
	n, h := retaining(t, map[string]string{"retention.ms": fmt.Sprint(hour)}, 0, 0, 0, 0)
	jump := func(by int64) {
		n.rt.mu.Lock()
		n.rt.now.Wall += model.Timestamp(by)
		n.rt.mu.Unlock()
	}
	n.wait(1)
	jump(2 * 365 * 24 * hour)
	n.wait(20)
	if got := n.bases(); got != "0 1 2 3" || !n.m.Stats().RetentionHeld {
		t.Fatalf("there are %s", got)
	}
	jump(-2 * 365 * 24 * hour)
	n.wait(20)
	if got := n.bases(); got != "0 1 2 3" || n.m.Stats().RetentionHeld {
		t.Fatalf("back again there are %s", got)
	}
	jump(30 * 24 * hour)
	n.wait(23 * 60)
	if got := n.bases(); got != "0 1 2 3" {
		t.Fatalf("less than a day later there are %s", got)
	}
	// By size it goes on.
	n.set(h, func(c *config.Topic) { c.RetentionBytes = 350 })
	n.wait(7)
	if got := n.bases(); got != "1 2 3" {
		t.Fatalf("by size there are %s", got)
	}
	n.wait(2 * 60)
	if got := n.bases(); got != "4" || n.m.Stats().RetentionHeld {
		t.Fatalf("a day later there are %s", got)
	}
}

// TestRetentionAtEveryCrash cuts the power, or kills the process, at each disk
// operation of a look at a log of which retention takes something: it starts
// again without damage, never below what the checkpoint held, and with everything
// that was to stay.
func TestRetentionAtEveryCrash(t *testing.T) {
	for name, die := range map[string]func(*memfs.FS) *memfs.FS{
		"kill":  func(fs *memfs.FS) *memfs.FS { return fs.KillClone(memfs.Kill{}) },
		"power": func(fs *memfs.FS) *memfs.FS { return fs.CrashClone(memfs.Crash{}) },
		"power with half of it": func(fs *memfs.FS) *memfs.FS {
			return fs.CrashClone(memfs.Crash{UnsyncedPct: 50, Rand: rand.New(rand.NewPCG(1, 1))})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for k := 0; ; k++ {
				n := newNode(t)
				watch := &pictures{disk: n.disk, left: k, die: die}
				n.fs = faultfs.Wrap(n.disk, faultfs.When(watch, faultfs.EIO()))
				n.retaining(map[string]string{"retention.bytes": "300", "file.delete.delay.ms": "1000"}, 0, 0, 0, 0, 0, 0, 0)
				n.rt.advance(5*minute - 2000)
				watch.armed = true
				for range 4 {
					n.rt.advance(1000)
					n.flushAll()
				}
				if watch.taken == nil {
					if k < 30 {
						t.Fatalf("only %d operations were counted", k)
					}
					return
				}
				n.diedAt(t, watch, fmt.Sprintf("operation %d", k))
			}
		})
	}
}

// diedAt starts from a picture, twice, and looks at t-0 with seven records, of
// which those from the fourth on were to stay.
func (n *node) diedAt(t *testing.T, watch *pictures, when string) {
	starts, err := checkpoint.ReadOffsets(watch.taken, "/data/"+checkpoint.LogStartFile)
	if err != nil {
		t.Fatal(err)
	}
	n.disk, n.boot = watch.taken, n.boot+"+"
	for range 2 {
		n.kill()
		if sum := n.start(); sum.Offline != 0 || sum.Loaded != 1 {
			t.Fatalf("death at %s: %+v, %s", when, sum, n.m.All()[0].State().Reason)
		}
		h := n.m.Get("t", 0)
		if s := h.State(); s.LogStart > 6 || s.LogEnd != 7 || s.LogStart < starts[h.tp] || values(t, s) != 7-int(s.LogStart) {
			t.Fatalf("death at %s: [%d, %d), the checkpoint says %d", when, s.LogStart, s.LogEnd, starts[h.tp])
		}
		n.register()
	}
	n.send(n.m.Get("t", 0), 1, batchOf(1, -1, 0)).want(t, 0, 7)
}

// A topic that is deleted and made anew while its files wait to be removed loses
// nothing of the new one.
func TestRetentionMeetsADeletedTopic(t *testing.T) {
	n, h := retaining(t, map[string]string{"retention.bytes": "0"}, 0, 0, 0, 0)
	n.rt.advance(5 * minute)
	if h.plog.View().BelowStart() {
		t.Fatal("the log has not let go of its segments")
	}
	jobs := n.flush["/data"].jobs
	if len(jobs) == 0 {
		t.Fatal("no job waits")
	}
	n.apply(&metadata.RemoveTopic{ID: topicID("t")})
	id := topicID("again")
	n.apply(&metadata.TopicRecord{Name: "t", ID: id}, &metadata.PartitionRecord{TopicID: id, PartitionRegistration: metadata.PartitionRegistration{
		Replicas: []model.BrokerID{1}, ISR: []model.BrokerID{1}, Leader: 1,
	}})
	h = n.m.Get("t", 0)
	n.send(h, 1, batchOf(3, -1, 0)).want(t, 0, 0)
	n.wait(3)
	n.kill()
	n.start()
	if s := n.m.Get("t", 0).State(); s.Role == partition.Offline || s.LogEnd != 3 || values(t, s) != 3 {
		t.Fatalf("the new topic is %+v", s.Mark)
	}
}

// A full disk can't take the checkpoint, and room is what is wanted.
func TestRetentionOnAFullDisk(t *testing.T) {
	n, _ := retaining(t, map[string]string{"retention.bytes": "250"}, 0, 0, 0, 0)
	usable, total, err := n.disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	n.disk.SetCapacity(total - usable)
	n.wait(7)
	if got := n.bases(); got != "2 3" {
		t.Fatalf("there are %s", got)
	}
}
