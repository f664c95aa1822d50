package host

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/partition"
)

// syncCount counts the syncs of a disk by what they are of.
type syncCount struct {
	mu sync.Mutex
	of map[string]int
}

func (c *syncCount) Decide(op faultfs.Op) *faultfs.Fault {
	name := filepath.Base(op.Path)
	switch {
	case op.Kind == faultfs.OpSyncDir && strings.HasPrefix(name, "t-"):
		name = "names" // in a partition's directory
	case op.Kind == faultfs.OpSyncDir:
		name = "dir"
	case op.Kind != faultfs.OpSync && op.Kind != faultfs.OpSyncData:
		return nil
	case strings.HasPrefix(name, "0000"):
		name = filepath.Ext(name)
	case name == "leader-epoch-checkpoint.tmp":
		name = "epochs"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[name]++
	return nil
}

func (c *syncCount) String() string { return "(count syncs)" }

// take returns the counts and begins anew.
func (c *syncCount) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.of
	c.of = make(map[string]int)
	return was
}

// syncsText lists counts, each divided by n.
func syncsText(of map[string]int, n int) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		switch {
		case of[k]%n != 0:
			list = append(list, fmt.Sprintf("%s:%d/%d", k, of[k], n))
		case of[k] > 0:
			list = append(list, fmt.Sprintf("%s:%d", k, of[k]/n))
		}
	}
	return strings.Join(list, " ")
}

// aRestart has a broker's partitions written to, stopped and started again, and
// counts: until it leads all of them, while it syncs what it found, at an orderly stop.
type aRestart struct {
	how     string // clean, kill, power
	tail    bool   // there are records above the recovery points at the stop
	written bool   // records come between the start and its stop
	setting string // flush.messages
}

func (w *aRestart) count(t *testing.T, parts int) [3]map[string]int {
	n := newNode(t)
	n.topic["t"] = map[string]string{"flush.messages": w.setting}
	n.start()
	n.register()
	n.create("t", parts)
	write := func() {
		for p := range parts {
			n.send(n.m.Get("t", int32(p)), 1, batchOf(2, -1, 0))
		}
	}
	write()
	for range 3 { // they are flushed, and the checkpoints say so
		n.flushAll()
		n.rt.advance(61_000)
	}
	n.flushAll()
	if w.tail {
		write()
	}
	switch w.how {
	case "clean":
		n.stop()
	case "kill":
		n.kill()
	case "power":
		n.disk = n.disk.CrashClone(memfs.Crash{UnsyncedPct: 100, Rand: rand.New(rand.NewPCG(1, 1))})
		n.boot += "+"
	}
	c := &syncCount{of: make(map[string]int)}
	n.fs = faultfs.Wrap(n.disk, c)
	want := LoadSummary{Loaded: parts}
	if sum := n.start(); sum != want {
		t.Fatalf("%+v, want %+v", sum, want)
	}
	var counts [3]map[string]int
	counts[0] = c.take()
	n.rt.idle()
	n.flushAll()
	counts[1] = c.take()
	n.register()
	n.flushAll()
	c.take() // what it costs to register is another matter
	for p := range parts {
		if s := n.m.Get("t", int32(p)).State(); s.Role != partition.Leader || s.RecoveryPoint != s.LogEnd {
			t.Fatalf("t-%d: %+v, recovery point %d", p, s.Mark, s.RecoveryPoint)
		}
	}
	if w.written {
		write()
	}
	n.stop()
	counts[2] = c.take()
	return counts
}

// TestSyncsOfAStart names every sync of a start and of a stop: those of the node, and
// those of each partition. No start waits for a sync of a partition. What an earlier
// process left unsynced is synced behind it; at a stop nothing is synced of a partition
// that nobody has written to since an orderly one.
func TestSyncsOfAStart(t *testing.T) {
	const (
		run    = ".tidemark_run.tmp:1 dir:" // and the log directory, its parents, what else is there
		marker = ".kafka_cleanshutdown.tmp:1 .tidemark_unclean.tmp:1 dir:2"
		both   = ".kafka_cleanshutdown.tmp:1 .tidemark_unclean.tmp:1 dir:4 recovery-point-offset-checkpoint.tmp:1 replication-offset-checkpoint.tmp:1"
		tail   = ".log:1 names:1"
		whole  = ".index:1 .log:1 .seal:1 .snapshot:1 .timeindex:1 epochs:1 names:2"
	)
	for _, c := range []struct {
		aRestart
		// Of the node, and of each of its partitions, as syncsText lists them.
		ready, stop                     string
		readyEach, behindEach, stopEach string
	}{
		{aRestart: aRestart{how: "clean"}, ready: run + "4", stop: marker},
		{aRestart: aRestart{how: "clean", tail: true}, ready: run + "4", stop: marker},
		{aRestart: aRestart{how: "clean", written: true}, ready: run + "4", stop: both, stopEach: whole},
		{aRestart: aRestart{how: "kill"}, ready: run + "3", stop: marker, stopEach: whole},
		{aRestart: aRestart{how: "kill", tail: true}, ready: run + "3", stop: both, behindEach: tail, stopEach: whole},
		{aRestart: aRestart{how: "kill", tail: true, setting: "1"}, ready: run + "3", stop: both, behindEach: tail, stopEach: whole},
		{aRestart: aRestart{how: "kill", tail: true, written: true}, ready: run + "3", stop: both, behindEach: tail, stopEach: whole},
		{aRestart: aRestart{how: "power"}, ready: run + "3", stop: marker, stopEach: whole},
		{aRestart: aRestart{how: "power", tail: true}, ready: run + "3", stop: both, behindEach: tail, stopEach: whole},
	} {
		if c.setting == "" {
			c.setting = "1000000"
		}
		t.Run(fmt.Sprintf("%+v", c.aRestart), func(t *testing.T) {
			one, many := c.count(t, 1), c.count(t, 11)
			for i, want := range [3][2]string{{c.ready, c.readyEach}, {"", c.behindEach}, {c.stop, c.stopEach}} {
				when := []string{"until it is loaded", "behind that", "at the stop"}[i]
				each, own := make(map[string]int), maps.Clone(one[i])
				for _, k := range slices.Concat(slices.Collect(maps.Keys(one[i])), slices.Collect(maps.Keys(many[i]))) {
					each[k] = many[i][k] - one[i][k]
				}
				for k, n := range each {
					own[k] -= n / 10
				}
				if got := syncsText(each, 10); got != want[1] {
					t.Errorf("%s, each partition: %q, want %q", when, got, want[1])
				}
				if got := syncsText(own, 1); got != want[0] {
					t.Errorf("%s, the node: %q, want %q", when, got, want[0])
				}
			}
		})
	}
}

// Where a start has to wait for the disk, because the ends of logs were torn, many of
// one directory wait together, though only as many are read at a time as the setting
// says; and so at a stop.
func TestSyncsOverlap(t *testing.T) {
	const parts = diskWorkers + 8
	n := withTails(t, parts, nil)
	for p := range parts {
		path := fmt.Sprintf("/data/t-%d/%020d.log", p, 0)
		whole, err := vfs.ReadFile(n.disk, path)
		if err == nil {
			err = vfs.WriteFile(n.disk, path, append(whole, "torn"...))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n.cfg.Storage.RecoveryThreads = 1
	atStart, atStop := newGathering("start"), newGathering("stop")
	group := &lifecycle.Group{}
	rt := realtime.New(group)
	m, sum := n.startReal(faultfs.Wrap(n.disk, faultfs.First(atStart, atStop)), group, rt)
	if sum.Loaded != parts {
		t.Errorf("%+v", sum)
	}
	atStart.check(t)
	for slices.ContainsFunc(m.All(), func(h *Hosted) bool { return h.State().RecoveryPoint < h.State().LogEnd }) {
		<-time.After(time.Millisecond) // a flusher is at it
	}
	atStop.on.Store(true)
	if err := m.Shutdown(true); err != nil {
		t.Error(err)
	}
	atStop.check(t)
	m.deps.Dirs.Close()
	rt.Stop()
	group.Wait()
}

// gathering holds up the syncs of partitions' directories until as many are under way
// as there are workers.
type gathering struct {
	when string
	on   atomic.Bool
	some atomic.Int64
	all  chan struct{}
	// late: nobody is held up any more. gathered: because all had come.
	late, gathered atomic.Bool
}

func newGathering(when string) *gathering {
	g := &gathering{when: when, all: make(chan struct{})}
	g.on.Store(when == "start")
	return g
}

func (g *gathering) String() string { return "(gather " + g.when + ")" }

func (g *gathering) Decide(op faultfs.Op) *faultfs.Fault {
	if op.Kind != faultfs.OpSyncDir || filepath.Dir(op.Path) != "/data" || !g.on.Load() {
		return nil
	}
	return faultfs.Stall(func(faultfs.Op) {
		if g.some.Add(1) == diskWorkers && !g.late.Swap(true) {
			g.gathered.Store(true)
			close(g.all)
		}
		select {
		case <-g.all:
		case <-time.After(10 * time.Second):
			if !g.late.Swap(true) {
				close(g.all)
			}
		}
	})
}

func (g *gathering) check(t *testing.T) {
	t.Helper()
	g.on.Store(false)
	if !g.gathered.Load() {
		t.Errorf("at the %s: %d syncs, and no %d of them at a time", g.when, g.some.Load(), diskWorkers)
	}
}
