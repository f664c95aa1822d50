package host

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// twoDisks is a broker on real goroutines with a log directory on each of two
// disks, the second of which can be made to hang.
type twoDisks struct {
	t     *testing.T
	group *lifecycle.Group
	rt    *realtime.Runtime
	disk  *memfs.FS
	dirs  *Dirs
	m     *ReplicaManager
	// mu keeps images and what is in line with them apart, as the broker's publisher
	// does.
	mu  sync.Mutex
	img *metadata.Image

	hang     *faultfs.Toggle
	goOn     chan struct{}
	troubles chan struct{}
}

const stallTimeout = 150 * time.Millisecond

func newTwoDisks(t *testing.T, disk *memfs.FS, img *metadata.Image, what faultfs.Predicate, overrides map[string]string) *twoDisks {
	return startTwoDisks(t, disk, img, what, overrides, false)
}

// startTwoDisks is newTwoDisks with the second disk hanging from the start on, or not.
func startTwoDisks(t *testing.T, disk *memfs.FS, img *metadata.Image, what faultfs.Predicate, overrides map[string]string, hung bool) *twoDisks {
	b := &twoDisks{t: t, group: &lifecycle.Group{}, disk: disk, img: img, goOn: make(chan struct{}), troubles: make(chan struct{}, 100)}
	b.rt = realtime.New(b.group)
	b.hang = faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.Under("/two"), what), faultfs.Stall(func(faultfs.Op) { <-b.goOn })))
	if hung {
		b.hang.On()
	}
	var fs vfs.FS = faultfs.Wrap(disk, b.hang)
	cfg := config.Defaults()
	cfg.Own.IOStallTimeout = stallTimeout
	var err error
	b.dirs, err = OpenDirs(DirOptions{
		FS: fs, Paths: []string{"/one", "/two"}, NodeID: 1, Rand: rand.New(rand.NewPCG(1, 1)), Logger: zap.NewNop(),
		Machine: Machine{BootID: func() string { return "boot" }, Mount: func(dir string) string { return dir }},
	})
	if err == nil {
		err = b.dirs.Claim(testCluster)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.m = NewReplicaManager(Deps{
		RT: b.rt, FS: fs, Dirs: b.dirs, Self: 1, Broker: cfg, Logger: zap.NewNop(), Rand: rand.New(rand.NewPCG(3, 3)), Group: b.group,
		Topic: func(*metadata.Image, string) *config.Topic {
			topic, err := cfg.Topic(nil, overrides)
			if err != nil {
				t.Error(err)
			}
			return &topic
		},
		Serial: func(run func()) {
			b.mu.Lock()
			defer b.mu.Unlock()
			run()
		},
		Trouble: func() {
			select {
			case b.troubles <- struct{}{}:
			default:
			}
		},
	})
	if _, err := b.m.Load(img); err != nil {
		t.Fatal(err)
	}
	return b
}

// stop ends it in order.
func (b *twoDisks) stop() {
	b.t.Helper()
	if err := b.m.Shutdown(true); err != nil {
		b.t.Error(err)
	}
	b.dirs.Close()
	b.rt.Stop()
	b.group.Wait()
}

func (b *twoDisks) apply(recs ...metadata.Record) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	img, delta, err := metadata.Apply(b.img, model.OffsetAndEpoch{Offset: b.img.At().Offset + 1, Epoch: 1}, recs)
	if err != nil {
		b.t.Fatal(err)
	}
	b.img = img
	b.m.Apply(img, delta)
}

// register has the broker lead what it is given.
func (b *twoDisks) register() {
	b.apply(&metadata.RegisterBroker{ID: 1, Epoch: model.NoBrokerEpoch})
	epoch := b.img.Broker(1).Epoch
	b.m.Registered(epoch)
	b.apply(&metadata.BrokerChange{ID: 1, Epoch: epoch, Fenced: metadata.Clear})
}

// parts returns a topic's partitions on each disk.
func (b *twoDisks) parts(topic string, n int) (one, two, none []*Hosted) {
	for p := range n {
		h := b.m.Get(topic, int32(p))
		switch {
		case h == nil:
		case h.Dir() == "/one":
			one = append(one, h)
		case h.Dir() == "/two":
			two = append(two, h)
		default:
			none = append(none, h)
		}
	}
	return one, two, none
}

// produce appends to a partition and returns the code, -2 if nothing came back in
// time.
func (b *twoDisks) produce(h *Hosted, patience time.Duration) Code {
	o := &once{ready: make(chan struct{})}
	rules := record.DefaultRules(1_700_000_000_000)
	prepared, reject := record.Validate(batchOf(1, -1, 0), &rules)
	b.group.Go("client", func() {
		h.Produce(ProduceMsg{Prepared: prepared, Reject: reject, Acks: -1, Waiter: o, Deadline: model.Never})
	})
	select {
	case <-o.ready:
		return o.produced.Code
	case <-time.After(patience):
		return -2
	}
}

// within fails the test if do takes longer than a few of the stall's time-outs.
func (b *twoDisks) within(what string, do func()) {
	b.t.Helper()
	begun := time.Now()
	do()
	if took := time.Since(begun); took > 20*stallTimeout {
		b.t.Errorf("%s took %s", what, took)
	}
}

// TestHungDirectory: metadata takes effect on the directories whose disks answer
// while another's does not, at any point of an image's way, and there as well once
// it answers again.
func TestHungDirectory(t *testing.T) {
	for _, first := range []string{"create", "delete", "lead", "produce"} {
		t.Run(first, func(t *testing.T) {
			b := newTwoDisks(t, memfs.New(), metadata.Empty(), faultfs.Always(), nil)
			b.register()
			b.apply(topicRecords("old", 4)...)
			b.apply(topicRecords("doomed", 4)...)
			one, two, _ := b.parts("old", 4)
			if len(one) != 2 || len(two) != 2 {
				t.Fatalf("%d and %d partitions", len(one), len(two))
			}
			for _, h := range append(one, two...) {
				if code := b.produce(h, 10*time.Second); code != 0 {
					t.Fatalf("%v: code %d", h.TopicPartition(), code)
				}
			}
			b.hang.On()
			change := func(p int32) {
				c := metadata.NewPartitionChange(topicID("old"), p)
				c.Leader = 1
				b.apply(c)
			}
			switch first {
			case "create":
				b.within("a new topic", func() { b.apply(topicRecords("new", 4)...) })
			case "delete":
				b.within("a removal", func() { b.apply(&metadata.RemoveTopic{ID: topicID("doomed")}) })
			case "lead":
				b.within("a change of leaders", func() {
					for p := range int32(4) {
						change(p)
					}
				})
			case "produce":
				b.group.Go("client", func() { b.produce(two[0], 10*time.Second) })
				<-b.troubles // the watchdog has seen it
			}
			b.within("what follows", func() {
				for i := range 20 {
					b.apply(topicRecords(fmt.Sprintf("more-%d", i), 1)...)
				}
				if first != "create" {
					b.apply(topicRecords("new", 4)...)
				}
				if first != "delete" {
					b.apply(&metadata.RemoveTopic{ID: topicID("doomed")})
				}
				b.apply(&metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.BrokerResource}, Key: "log.retention.ms", Value: new("1000")})
			})
			for i := range 20 {
				h := b.m.Get(fmt.Sprintf("more-%d", i), 0)
				if h == nil || h.Dir() == "/one" && b.produce(h, 5*time.Second) != 0 || h.Dir() == "" && h.State().Role != partition.Offline {
					t.Errorf("more-%d: %v", i, h)
				}
			}
			for _, h := range one {
				if code := b.produce(h, 5*time.Second); code != 0 {
					t.Errorf("%v on the disk that answers: code %d", h.TopicPartition(), code)
				}
			}
			if b.m.Get("doomed", 0) != nil {
				t.Error("a deleted topic is still there")
			}
			b.hang.Off()
			close(b.goOn)
			b.eventually("all that there is is served", func() bool {
				for _, h := range b.m.All() {
					if h.Dir() == "" || b.produce(h, time.Second) != 0 {
						return false
					}
				}
				return true
			})
			b.eventually("what was deleted is away", func() bool { return !b.names("doomed-") })
			names := len(b.m.All())
			b.stop()
			again := newTwoDisks(t, b.disk, b.img, faultfs.Always(), nil)
			if n := len(again.m.All()); n != names {
				t.Errorf("%d partitions after a restart, %d before", n, names)
			}
			again.register()
			for _, h := range again.m.All() {
				if s := h.State(); h.Dir() == "" || s.Reason != "" {
					t.Errorf("%v after a restart: %q in %q", h.TopicPartition(), s.Reason, h.Dir())
				}
			}
			again.stop()
		})
	}
}

// TestHungFlush: a partition whose flush somebody waits for and that does not come
// back is given up, and is back with the disk.
func TestHungFlush(t *testing.T) {
	b := newTwoDisks(t, memfs.New(), metadata.Empty(), faultfs.OpIn(faultfs.OpSync, faultfs.OpSyncData), map[string]string{"flush.messages": "1"})
	b.register()
	b.apply(topicRecords("t", 2)...)
	one, two, _ := b.parts("t", 2)
	for _, h := range append(one, two...) {
		if code := b.produce(h, 10*time.Second); code != 0 {
			t.Fatalf("%v: code %d", h.TopicPartition(), code)
		}
	}
	b.hang.On()
	if code := b.produce(two[0], 10*time.Second); code != partition.CodeStorageError {
		t.Errorf("code %d", code)
	}
	if s := b.m.Stalled(); len(s) != 1 || s[0] != two[0] {
		t.Errorf("stalled: %v", s)
	}
	if code := b.produce(one[0], 10*time.Second); code != 0 {
		t.Errorf("the other disk: code %d", code)
	}
	b.hang.Off()
	close(b.goOn)
	b.eventually("it is back", func() bool { return b.produce(two[0], time.Second) == 0 && len(b.m.Stalled()) == 0 })
	b.stop()
}

func (b *twoDisks) eventually(what string, cond func() bool) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); {
		if time.Now().After(end) {
			b.t.Fatalf("not within 20 s: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// names says whether a directory of a partition that is not set aside begins so.
func (b *twoDisks) names(prefix string) bool {
	for _, dir := range []string{"/one", "/two"} {
		all, err := b.disk.List(dir)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, n := range all {
			if strings.HasPrefix(n, prefix) && filepath.Ext(n) == "" {
				return true
			}
		}
	}
	return false
}
