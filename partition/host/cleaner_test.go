package host

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// keyed is a batch of the words key=value, or key for a tombstone.
func (n *node) keyed(words string) record.Batch {
	return n.keyedBy(record.Options{}, words)
}

func (n *node) keyedBy(o record.Options, words string) record.Batch {
	b := record.NewBuilder(o)
	for _, word := range strings.Fields(words) {
		k, v, found := strings.Cut(word, "=")
		if !found {
			b.Append(n.rt.Now().Wall, []byte(k), nil)
			continue
		}
		b.Append(n.rt.Now().Wall, []byte(k), []byte(v))
	}
	return b.Build()
}

// compacting is a node that leads the compacted topic t-0 with segments of about
// two batches.
func compacting(t testing.TB, overrides map[string]string) (*node, *Hosted) {
	n := newNode(t)
	return n, n.compacting(overrides)
}

func (n *node) compacting(overrides map[string]string) *Hosted {
	n.topic["t"] = map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
	for k, v := range overrides {
		n.topic["t"][k] = v
	}
	n.start()
	n.register()
	n.create("t", 1)
	h := n.m.Get("t", 0)
	n.set(h, func(c *config.Topic) { c.SegmentBytes = 200 })
	return h
}

// add produces batches, one for each argument, and makes them durable.
func (n *node) add(h *Hosted, batches ...string) {
	n.t.Helper()
	for _, words := range batches {
		end := h.State().LogEnd
		a := n.send(h, 1, n.keyed(words))
		n.flushAll()
		a.want(n.t, 0, end)
	}
}

// look lets the cleaner have a look, and does all that follows.
func (n *node) look() {
	n.rt.advance(15_000)
	n.flushAll()
}

// text is what a reader from the start sees.
func text(t testing.TB, h *Hosted) string {
	t.Helper()
	s := h.State()
	var out []string
	err := s.View.Batches(s.LogStart, nil, func(b record.Batch) error {
		if err := b.CheckCRC(); err != nil {
			return err
		}
		if b.Count() == 0 {
			out = append(out, fmt.Sprintf("[%d]", b.LastOffset()))
		}
		return b.Each(0, func(r *record.Record) error {
			word := fmt.Sprintf("%d:%s", r.Offset, r.Key)
			if r.Value != nil {
				word += "=" + string(r.Value)
			}
			out = append(out, word)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func (n *node) cleanedTo() model.Offset {
	offsets, err := checkpoint.ReadOffsets(n.disk, "/data/"+checkpoint.CleanerFile)
	if err != nil {
		n.t.Fatal(err)
	}
	return offsets[model.TopicPartition{Topic: "t"}]
}

func TestCompaction(t *testing.T) {
	n, h := compacting(t, nil)
	n.add(h, "a=1 b=1", "a=2 c=1", "b=2", "a=3", "d=1", "z=1")
	if got := n.bases(); got != "0 4 6" {
		t.Fatalf("segments %s", got)
	}
	n.look()
	if got, want := text(t, h), "3:c=1 4:b=2 5:a=3 6:d=1 7:z=1"; got != want {
		t.Fatalf("left is %s, want %s", got, want)
	}
	if got := n.cleanedTo(); got != 6 {
		t.Fatalf("cleaned to %d", got)
	}
	// The sources wait for file.delete.delay.ms.
	if got := n.bases(); got != "0 -0 4 -4 6" {
		t.Fatalf("segments %s", got)
	}
	n.wait(2)
	if got := n.bases(); got != "0 4 6" {
		t.Fatalf("segments %s", got)
	}
	s := n.m.CleanerStats()
	if s.Runs != 1 || s.Failures != 0 || s.RecordsDropped != 3 || s.BytesWritten >= s.BytesRead || s.Running != 0 {
		t.Errorf("counted %+v", s)
	}
	// The next time what came since counts against all that is there.
	n.add(h, "a=4", "c=2", "q=1")
	n.look()
	if got, want := text(t, h), "4:b=2 6:d=1 7:z=1 8:a=4 9:c=2 10:q=1"; got != want {
		t.Fatalf("left is %s, want %s", got, want)
	}
	n.kill()
	n.start()
	n.register()
	h = n.m.Get("t", 0)
	if got, want := text(t, h), "4:b=2 6:d=1 7:z=1 8:a=4 9:c=2 10:q=1"; got != want {
		t.Fatalf("after a kill there is %s, want %s", got, want)
	}
	n.look()
	if s := n.m.CleanerStats(); s.Runs != 0 {
		t.Errorf("cleaned again after a restart: %+v", s)
	}
}

// A tombstone stays for delete.retention.ms after the first cleaning, and lets
// readers reach the log's end also where it was the last record.
func TestCompactionOfTombstones(t *testing.T) {
	n, h := compacting(t, map[string]string{"delete.retention.ms": "600000"})
	n.add(h, "a=1 b=1", "a", "b=2", "b")
	n.send(h, 1, n.keyed("end=1"))
	n.set(h, func(c *config.Topic) { c.SegmentMs = 1 })
	n.rt.advance(1000)
	n.add(h, "end=2")
	n.look()
	if got, want := text(t, h), "2:a 4:b 5:end=1 6:end=2"; got != want {
		t.Fatalf("left is %s, want %s", got, want)
	}
	n.wait(9)
	n.add(h, "x=1", "x=2", "x=3")
	n.look()
	if got, want := text(t, h), "2:a 4:b 6:end=2 8:x=2 9:x=3"; got != want {
		t.Fatalf("left is %s, want %s", got, want)
	}
	n.wait(2)
	n.add(h, "x=4", "x=5", "x=6")
	n.look()
	if got, want := text(t, h), "6:end=2 11:x=5 12:x=6"; got != want {
		t.Fatalf("left is %s, want %s", got, want)
	}
	// A reader who was at the first tombstone goes on.
	s := h.State()
	if b := s.FetchBounds(2, -1, -1, ReadUncommitted, true); b.Code != 0 || b.End != 13 {
		t.Fatalf("%+v", b)
	}
	r, err := s.View.Read(2, s.HighWatermark, 1<<20, true)
	if err != nil || r.Len() == 0 || r.Start() != 6 {
		t.Fatalf("%d bytes from %d, %v", r.Len(), r.Start(), err)
	}
	r.Release()
}

func TestCompactionSettings(t *testing.T) {
	const all = "0:a=1 1:a=2 2:a=3 3:a=4 4:a=5 5:a=6"
	const left = "3:a=4 4:a=5 5:a=6"
	for _, c := range []struct {
		name string
		with map[string]string
		wait int // minutes
		want string
	}{
		{"at once", nil, 1, left},
		{"not compacted", map[string]string{"cleanup.policy": "delete"}, 1, all},
		{"clean enough", map[string]string{"min.cleanable.dirty.ratio": "1"}, 1, all},
		{"a least lag", map[string]string{"min.compaction.lag.ms": "300000"}, 3, all},
		{"after the least lag", map[string]string{"min.compaction.lag.ms": "300000"}, 6, left},
		{"before the greatest lag", map[string]string{"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "300000"}, 3, all},
		{"after the greatest lag", map[string]string{"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "300000"}, 6, left},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, h := compacting(t, c.with)
			n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
			n.wait(c.wait)
			if got := text(t, h); got != c.want {
				t.Errorf("left is %s, want %s", got, c.want)
			}
		})
	}
	t.Run("log.cleaner.enable", func(t *testing.T) {
		n := newNode(t)
		n.cfg.Storage.Cleaner.Enable = false
		h := n.compacting(nil)
		n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
		n.wait(2)
		if got := text(t, h); got != all {
			t.Errorf("left is %s", got)
		}
	})
	t.Run("log.cleaner.threads changed while running", func(t *testing.T) {
		n, h := compacting(t, nil)
		c := n.m.cleaner.settings()
		c.Threads = 0
		n.m.SetCleaner(c)
		n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
		n.look()
		if got := text(t, h); got != all {
			t.Errorf("without threads left is %s", got)
		}
		c.Threads, c.BytesPerSecond, c.Backoff = 2, 1e9, time.Minute
		n.m.SetCleaner(c)
		if n.m.cleanerTask.every != model.Instant(time.Minute) || n.m.cleaner.pace.rate != 1e9 {
			t.Errorf("looked every %d, %g bytes a second", n.m.cleanerTask.every, n.m.cleaner.pace.rate)
		}
		n.look() // a quarter of the new backoff
		if got := text(t, h); got != all {
			t.Errorf("too early left is %s", got)
		}
		n.rt.advance(60_000)
		n.flushAll()
		if got := text(t, h); got != left {
			t.Errorf("left is %s", got)
		}
	})
	t.Run("changed while running", func(t *testing.T) {
		n, h := compacting(t, map[string]string{"cleanup.policy": "delete"})
		n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
		n.wait(1)
		n.set(h, func(c *config.Topic) { c.CleanupPolicy.Compact = true })
		n.look()
		if got := text(t, h); got != left {
			t.Errorf("left is %s", got)
		}
	})
}

// The active segment of a compacted topic is closed by the greatest lag.
func TestGreatestLagClosesSegments(t *testing.T) {
	topic := config.Topic{SegmentMs: 1000, MaxCompactionLagMs: 10}
	if got := logConfig(&topic).SegmentMs; got != 1000 {
		t.Errorf("not compacted: %d", got)
	}
	topic.CleanupPolicy.Compact = true
	if got := logConfig(&topic).SegmentMs; got != 10 {
		t.Errorf("compacted: %d", got)
	}
}

// More keys than the memory takes: several goes, each a little further.
func TestCompactionWithLittleMemory(t *testing.T) {
	n := newNode(t)
	n.cfg.Storage.Cleaner.DedupeBytes = 24 * 4
	h := n.compacting(nil)
	var batches []string
	for i := range 30 {
		batches = append(batches, fmt.Sprintf("k%d=%d same=%d", i%10, i, i))
	}
	n.add(h, batches...)
	for range 60 {
		n.look()
	}
	got := text(t, h)
	for i := range 10 {
		if n := strings.Count(got, fmt.Sprintf(":k%d=", i)); n > 2 || n == 0 {
			t.Errorf("k%d is there %d times in %s", i, n, got)
		}
	}
	if s := n.m.CleanerStats(); s.Runs < 5 || s.BufferPercent != 100 {
		t.Errorf("%+v", s)
	}
}

// TestDamageStopsOneCleaning: a partition with a damaged segment is not cleaned;
// it serves on, and the others are cleaned.
func TestDamageStopsOneCleaning(t *testing.T) {
	n := newNode(t)
	n.cfg.Own.Scrub.Enable = false // it would take the partition out of service
	h := n.compacting(nil)
	n.topic["u"] = n.topic["t"]
	n.create("u", 1)
	other := n.m.Get("u", 0)
	n.set(other, func(c *config.Topic) { c.SegmentBytes = 200 })
	for _, h := range []*Hosted{h, other} {
		n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
	}
	f, err := n.disk.OpenFile("/data/t-0/00000000000000000002.log", 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xa5}, 70); err != nil {
		t.Fatal(err)
	}
	n.look()
	n.look()
	n.look()
	if got := text(t, other); got != "3:a=4 4:a=5 5:a=6" {
		t.Errorf("the other one is %s", got)
	}
	s := n.m.CleanerStats()
	if s.Failures != 1 || s.Uncleanable["/data"].Partitions != 1 || s.Uncleanable["/data"].Bytes == 0 {
		t.Errorf("counted %+v", s)
	}
	if got := n.bases(); got != "0 2 4" {
		t.Errorf("segments %s", got)
	}
	if s := h.State(); s.Role != partition.Leader {
		t.Errorf("it is %+v", s.Mark)
	}
	n.add(h, "a=7")
	n.apply(&metadata.RemoveTopic{ID: topicID("t")})
	n.look()
	if s := n.m.CleanerStats(); s.Uncleanable["/data"].Partitions != 0 {
		t.Errorf("a deleted partition still counts: %+v", s)
	}
}

// A full disk puts the cleaning off.
func TestCompactionOnAFullDisk(t *testing.T) {
	n, h := compacting(t, nil)
	n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
	usable, total, err := n.disk.Free("/data")
	if err != nil {
		t.Fatal(err)
	}
	n.disk.SetCapacity(total - usable)
	n.look()
	if s := n.m.CleanerStats(); s.Runs != 0 || s.Failures != 0 || !strings.HasSuffix(text(t, h), "3:a=4 4:a=5 5:a=6") {
		t.Fatalf("%+v, %s", s, text(t, h))
	}
	n.disk.SetCapacity(0)
	n.look()
	if got := text(t, h); got != "3:a=4 4:a=5 5:a=6" {
		t.Fatalf("with room again there is %s", got)
	}
}

// What happens to the partition while a group is being swapped in.
func TestCompactionMeetsOtherChanges(t *testing.T) {
	const left = "3:a=4 4:a=5 5:a=6"
	start := func(t *testing.T) (*node, *Hosted) {
		n, h := compacting(t, nil)
		n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
		n.rt.advance(15_000)
		if len(n.flush["/data"].jobs) == 0 {
			t.Fatal("no swap is under way")
		}
		return n, h
	}
	t.Run("appends", func(t *testing.T) {
		n, h := start(t)
		n.send(h, 1, n.keyed("b=1"))
		n.flushAll()
		if got := text(t, h); got != left+" 6:b=1" {
			t.Errorf("there is %s", got)
		}
	})
	t.Run("the topic is deleted and made anew", func(t *testing.T) {
		n, _ := start(t)
		n.apply(&metadata.RemoveTopic{ID: topicID("t")})
		id := topicID("again")
		n.apply(&metadata.TopicRecord{Name: "t", ID: id}, &metadata.PartitionRecord{TopicID: id, PartitionRegistration: metadata.PartitionRegistration{
			Replicas: []model.BrokerID{1}, ISR: []model.BrokerID{1}, Leader: 1,
		}})
		h := n.m.Get("t", 0)
		n.send(h, 1, n.keyed("n=1"))
		n.flushAll()
		n.look()
		if got := text(t, h); got != "0:n=1" {
			t.Errorf("there is %s", got)
		}
		n.kill()
		n.start()
		if got := text(t, n.m.Get("t", 0)); got != "0:n=1" {
			t.Errorf("after a kill there is %s", got)
		}
	})
	t.Run("an orderly stop", func(t *testing.T) {
		n, _ := start(t)
		n.stop()
		n.start()
		if got := text(t, n.m.Get("t", 0)); !strings.HasSuffix(got, left) {
			t.Errorf("there is %s", got)
		}
	})
	t.Run("records are deleted", func(t *testing.T) {
		n, h := start(t)
		n.set(h, func(c *config.Topic) { c.CleanupPolicy.Delete = true })
		a := &answers{}
		h.DeleteRecords(3, n.rt.Now().Mono+30_000_000_000, a, 0)
		n.wait(7)
		if s := h.State(); s.LogStart != 3 || text(t, h) != left {
			t.Errorf("from %d there is %s", s.LogStart, text(t, h))
		}
	})
	t.Run("the log is emptied", func(t *testing.T) {
		n, h := start(t)
		h.box.Enter(&takeDownMsg{code: partition.CodeStorageError, reason: "taken", w: waitless()})
		n.flushAll()
		n.look()
		if s := n.m.CleanerStats(); s.Running != 0 || s.Failures != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func waitless() *takenDown {
	w := &takenDown{done: make(chan struct{})}
	return w
}

// A log that is cut below what was cleaned is cleaned from there on again.
func TestCutLowersTheCleanedPoint(t *testing.T) {
	n, h := compacting(t, nil)
	n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
	n.look()
	if got := n.cleanedTo(); got != 4 {
		t.Fatalf("cleaned to %d", got)
	}
	d := h.dir
	if err := d.lowerCleaned(h.tp, 9); err != nil || n.cleanedTo() != 4 {
		t.Fatalf("%v, %d", err, n.cleanedTo())
	}
	if err := d.lowerCleaned(h.tp, 3); err != nil || n.cleanedTo() != 3 || d.cleanedTo(h.tp) != 3 {
		t.Fatalf("%v, %d", err, n.cleanedTo())
	}
	// One that doesn't fit the log at all counts for nothing.
	d.resetCleaned(h.tp, 1000)
	n.add(h, "a=7", "a=8", "a=9")
	n.look()
	if got := text(t, h); got != "6:a=7 7:a=8 8:a=9" && got != "7:a=8 8:a=9" {
		t.Fatalf("left is %s", got)
	}
}

func TestPacer(t *testing.T) {
	p := pacer{rate: 1000}
	now := model.Instant(10 * time.Second)
	if at := p.after(now, 300); at != 0 {
		t.Errorf("after a rest it pauses until %d", at)
	}
	if at := p.after(now, 500); at != now+model.Instant(500*time.Millisecond) {
		t.Errorf("it pauses until %d", at)
	}
	now += model.Instant(time.Hour)
	if at := p.after(now, 1300); at != now+model.Instant(time.Second) {
		t.Errorf("a long rest doesn't count: until %d", at)
	}
	p.rate = 1.7976931348623157e308
	if at := p.after(now, 1<<40); at != 0 {
		t.Errorf("unbounded, it pauses until %d", at)
	}
}

// TestCompactionAtEveryCrash cuts the power, or kills the process, at each disk
// operation of a cleaning: every latest value is there, at its offset, and what is
// left is of what was.
func TestCompactionAtEveryCrash(t *testing.T) {
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
				h := n.compacting(map[string]string{"file.delete.delay.ms": "1000", "flush.messages": "1"})
				n.add(h, "a=1 b=1", "a=2 c=1", "b", "a=3", "d=1 c=2", "z=1", "a=4", "end=1")
				all := text(t, h)
				n.rt.advance(12_000)
				watch.armed = true
				for range 6 {
					n.rt.advance(1000)
					n.flushAll()
				}
				if watch.taken == nil {
					if k < 40 {
						t.Fatalf("only %d operations were counted", k)
					}
					return
				}
				n.disk, n.boot = watch.taken, n.boot+"+"
				for range 2 {
					n.kill()
					if sum := n.start(); sum.Offline != 0 || sum.Loaded != 1 {
						t.Fatalf("death at operation %d: %+v, %s", k, sum, n.m.All()[0].State().Reason)
					}
					got := text(t, n.m.Get("t", 0))
					for _, word := range strings.Fields(got) {
						if !strings.HasPrefix(word, "[") && !strings.Contains(all, word) {
							t.Fatalf("death at operation %d: %s is not of %s", k, got, all)
						}
					}
					for _, word := range strings.Fields("4:b 6:d=1 7:c=2 8:z=1 9:a=4 10:end=1") {
						if !strings.Contains(got, word) {
							t.Fatalf("death at operation %d: %s is not in %s", k, word, got)
						}
					}
					n.register()
				}
			}
		})
	}
}

// TestCompactionAgainstAModel appends, cleans, stops, kills and cuts the power at
// random, and compares what a reader from the start makes of the log, and the
// producers' state, with a model.
func TestCompactionAgainstAModel(t *testing.T) {
	runs := int64(0)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		n := newNode(t)
		n.cfg.Storage.Cleaner.DedupeBytes = int64(24 * (3 + r.IntN(20)))
		h := n.compacting(map[string]string{"flush.messages": "1", "delete.retention.ms": fmt.Sprint(r.IntN(60_000))})
		small := func() { n.set(h, func(c *config.Topic) { c.SegmentBytes = int32(150 + r.IntN(400)) }) }
		small()
		table := make(map[string]string)
		seqs := make(map[model.ProducerID]model.Sequence)
		for step := range 120 {
			switch x := r.IntN(20); {
			case x < 13:
				var words []string
				for range 1 + r.IntN(4) {
					key := fmt.Sprintf("k%d", r.IntN(9))
					if r.IntN(4) == 0 {
						words, table[key] = append(words, key), ""
						continue
					}
					table[key] = fmt.Sprintf("%d.%d", step, len(words))
					words = append(words, key+"="+table[key])
				}
				id := model.ProducerID(r.IntN(4))
				o := record.Options{ProducerID: id, BaseSequence: seqs[id], Codec: record.Codec(r.IntN(5))}
				a := n.send(h, 1, n.keyedBy(o, strings.Join(words, " ")))
				n.flushAll()
				a.want(t, 0, h.State().LogEnd-model.Offset(len(words)))
				seqs[id] = seqs[id].Add(int32(len(words)))
			case x < 17:
				n.look()
			case x < 18:
				n.rt.advance(int64(r.IntN(90_000)))
				n.flushAll()
			default:
				runs += n.m.CleanerStats().Runs
				switch r.IntN(3) {
				case 0:
					n.stop()
				case 1:
					n.kill()
				case 2:
					n.power()
				}
				if sum := n.start(); sum.Offline > 0 {
					t.Fatalf("seed %d step %d: %s", seed, step, n.m.All()[0].State().Reason)
				}
				n.register()
				h = n.m.Get("t", 0)
				small()
			}
			checkTable(t, fmt.Sprintf("seed %d step %d", seed, step), h, table, seqs)
		}
	}
	if runs < 100 {
		t.Errorf("only %d cleanings", runs)
	}
}

func checkTable(t *testing.T, when string, h *Hosted, want map[string]string, seqs map[model.ProducerID]model.Sequence) {
	t.Helper()
	got := make(map[string]string)
	next := model.Offset(0)
	s := h.State()
	err := s.View.Batches(s.LogStart, nil, func(b record.Batch) error {
		if b.BaseOffset() < next {
			t.Fatalf("%s: batch at %d after %d", when, b.BaseOffset(), next)
		}
		next = b.NextOffset()
		return b.Each(0, func(r *record.Record) error { got[string(r.Key)] = string(r.Value); return nil })
	})
	if err != nil || next != s.LogEnd {
		t.Fatalf("%s: ends at %d, the log at %d; %v", when, next, s.LogEnd, err)
	}
	for k, v := range want { // order-free
		if got[k] != v {
			t.Fatalf("%s: %s is %q, want %q", when, k, got[k], v)
		}
	}
	for id, seq := range seqs { // order-free
		if e, ok := h.plog.Producers().Lookup(id); id > 0 && seq > 0 && (!ok || e.LastSeq().Add(1) != seq) {
			t.Fatalf("%s: producer %d goes on with %d, want %d", when, id, e.LastSeq().Add(1), seq)
		}
	}
}
