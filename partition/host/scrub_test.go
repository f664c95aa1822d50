package host

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/partition"
)

const (
	secondSegment = "/data/t-0/00000000000000000002"
	day           = 24 * 3600 * 1000
	scrubRestMs   = int64(scrubRest / 1e6)
)

// scrubbed is a node that leads t-0 with the segments 0, 2 and 4, the last of which
// is being written, and has verified none.
func scrubbed(t testing.TB) (*node, *Hosted) {
	n, h := leading(t, map[string]string{"retention.ms": "-1"})
	n.set(h, func(c *config.Topic) { c.SegmentBytes = 200 })
	n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
	if got := n.bases(); got != "0 2 4" {
		t.Fatalf("segments %s", got)
	}
	return n, h
}

// scrub lets the scrubber have a look, and does all that follows.
func (n *node) scrub() {
	n.rt.advance(scrubRestMs)
	n.flushAll()
}

// again is an orderly stop and a start at the same time of day.
func (n *node) again() {
	n.t.Helper()
	n.stop()
	now := n.rt.Now()
	n.start()
	n.rt.now = now
	n.register()
}

// content reads a file of the node's disk.
func (n *node) content(path string) []byte {
	n.t.Helper()
	b, err := vfs.ReadFile(n.disk, path)
	if err != nil {
		n.t.Fatal(err)
	}
	return b
}

// TestScrub: every sealed segment is verified once in a period, also across starts.
func TestScrub(t *testing.T) {
	n, h := scrubbed(t)
	want := func(segments int64) {
		t.Helper()
		if s := n.m.ScrubStats(); s.Segments != segments || s.Damaged+s.Failures+s.Rebuilt+s.Derived > 0 {
			t.Fatalf("%+v, want %d segments", s, segments)
		}
	}
	n.scrub()
	want(2)
	n.add(h, "a=7") // the third is sealed
	n.scrub()
	want(3)
	for range 20 {
		n.scrub()
	}
	want(3)
	n.rt.advance(6 * day)
	want(3)
	n.again()
	n.scrub()
	want(0) // that process has verified nothing
	if s := n.m.ScrubStats(); s.Oldest["/data"] < 6*24*time.Hour {
		t.Errorf("oldest %v", s.Oldest)
	}
	n.rt.advance(day)
	n.scrub()
	want(3)
}

// TestScrubPacesSmallSegments: segments that are hardly longer than nothing are not
// read without a pause either.
func TestScrubPacesSmallSegments(t *testing.T) {
	n, h := leading(t, map[string]string{"retention.ms": "-1"})
	n.set(h, func(c *config.Topic) { c.SegmentBytes = 100 })
	const segments = 400
	for range segments + 1 {
		n.add(h, "a=1")
	}
	most := n.cfg.Own.Scrub.BytesPerSecond / scrubOpening
	seconds, seen := 0, int64(0)
	for range scrubRest / 1e9 * 2 {
		n.rt.advance(1000)
		n.flushAll()
		got := n.m.ScrubStats().Segments
		if got-seen > most {
			t.Fatalf("%d segments in a second, want %d at most", got-seen, most)
		}
		if got > seen {
			seconds++
		}
		seen = got
	}
	if seen != segments || seconds > 20 {
		t.Errorf("%d segments verified in %d seconds, want %d in fewer than 20", seen, seconds, segments)
	}
}

// TestScrubQuarantines: a bit that flips where nobody reads and no CRC covers it takes
// the replica out of service, as damage that a reader meets does, and its files stay.
func TestScrubQuarantines(t *testing.T) {
	for what, at := range map[string]int64{"base offset": 7, "leader epoch": 12, "length": 10, "CRC": 17, "records": 65} { // order-free
		n, h := scrubbed(t)
		n.rot(secondSegment+".log", at, 2)
		spoilt := n.content(secondSegment + ".log")
		n.scrub()
		if s := h.State(); s.Role != partition.Offline || s.Code != partition.CodeStorageError {
			t.Errorf("%s: %+v", what, s.Mark)
		}
		if s := n.m.ScrubStats(); s.Damaged != 1 {
			t.Errorf("%s: %+v", what, s)
		}
		if !bytes.Equal(n.content(secondSegment+".log"), spoilt) {
			t.Errorf("%s: the file was changed", what)
		}
		n.content(secondSegment + ".damaged")
	}
}

// TestScrubBelowTheStart: damage in what was deleted costs nothing, and segments of
// which all was are not read.
func TestScrubBelowTheStart(t *testing.T) {
	n, h := scrubbed(t)
	a := &answers{}
	h.DeleteRecords(3, model.Never, a, 0)
	n.flushAll()
	if start := h.State().LogStart; start != 3 {
		t.Fatalf("the log starts at %d", start)
	}
	n.rot(secondSegment+".log", 65, 2)
	for range 3 {
		n.scrub()
	}
	if s, stats := h.State(), n.m.ScrubStats(); s.Role != partition.Leader || stats.Damaged+stats.Failures+stats.Segments != 0 {
		t.Errorf("%+v, %+v", s.Mark, stats)
	}
}

// TestScrubBehindWhatWasDeleted: damage behind damage in what was deleted is found, and
// what was garbled on the way costs nothing there either.
func TestScrubBehindWhatWasDeleted(t *testing.T) {
	for _, lasting := range []bool{true, false} {
		n, h := scrubbed(t)
		h.DeleteRecords(3, model.Never, &answers{}, 0)
		n.flushAll()
		n.rot(secondSegment+".log", 65, 2)
		behind := int64(len(n.content(secondSegment+".log")))/2 + 65
		n.rot(secondSegment+".log", behind, 2)
		n.rt.advance(scrubRestMs)
		if !lasting {
			n.rot(secondSegment+".log", behind, 2)
		}
		n.flushAll()
		n.scrub()
		s, stats := h.State(), n.m.ScrubStats()
		if (s.Role == partition.Offline) != lasting || stats.Damaged != 1 {
			t.Errorf("lasting %v: %+v, %+v", lasting, s.Mark, stats)
		}
		if d := h.damage.Load(); lasting && (d == nil || d.Offset != 3) {
			t.Errorf("%v", d)
		}
	}
}

// TestScrubReadsTwice: damage that is not there any more when it is looked at again,
// as when a cable garbles, costs nothing, and is not looked for again at once.
func TestScrubReadsTwice(t *testing.T) {
	n, h := scrubbed(t)
	n.rot(secondSegment+".log", 65, 2)
	n.rt.advance(scrubRestMs)
	n.rot(secondSegment+".log", 65, 2)
	n.flushAll()
	n.scrub()
	if s := n.m.ScrubStats(); h.State().Role != partition.Leader || s.Damaged != 1 || s.Segments != 1 {
		t.Fatalf("%+v, %+v", h.State().Mark, s)
	}
	n.rt.advance(11 * 60 * 1000)
	n.scrub()
	if s := n.m.ScrubStats(); h.State().Role != partition.Leader || s.Damaged != 1 || s.Segments != 2 {
		t.Errorf("%+v, %+v", h.State().Mark, s)
	}
}

// TestScrubMends: what is derived and wrong is made anew, also on the disk.
func TestScrubMends(t *testing.T) {
	for _, suffix := range []string{".index", ".timeindex", ".seal"} {
		n, h := leading(t, map[string]string{"index.interval.bytes": "0"})
		n.set(h, func(c *config.Topic) { c.SegmentBytes = 200 })
		n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
		good := n.content(secondSegment + suffix)
		n.rot(secondSegment+suffix, int64(len(good)-1), 2)
		n.scrub()
		if s := n.m.ScrubStats(); s.Rebuilt != 1 || s.Segments != 2 || h.State().Role != partition.Leader {
			t.Errorf("%s: %+v", suffix, s)
		}
		if got := n.content(secondSegment + suffix); !bytes.Equal(got, good) {
			t.Errorf("%s: %x, want %x", suffix, got, good)
		}
	}
}

// TestScrubDerives: a segment without a seal has one once it was verified.
func TestScrubDerives(t *testing.T) {
	n, _ := scrubbed(t)
	n.stop()
	if err := n.disk.Remove(secondSegment + ".seal"); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.register()
	n.scrub()
	if s := n.m.ScrubStats(); s.Derived != 1 || s.Segments != 2 {
		t.Errorf("%+v", s)
	}
	n.content(secondSegment + ".seal")
}

// TestScrubReadError: a sector that can't be read any more takes the partition
// offline like any other I/O error, if it is still so when it is read again.
func TestScrubReadError(t *testing.T) {
	n := newNode(t)
	toggle := faultfs.NewToggle(faultfs.When(faultfs.And(faultfs.PathMatch("00000000000000000002.log"), faultfs.OpIn(faultfs.OpRead)), faultfs.EIO()))
	n.fs = faultfs.Wrap(n.disk, toggle)
	n.start()
	n.register()
	n.create("t", 1)
	h := n.m.Get("t", 0)
	n.set(h, func(c *config.Topic) { c.SegmentBytes = 200 })
	n.add(h, "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
	toggle.On()
	n.rt.advance(scrubRestMs)
	toggle.Off()
	n.flushAll()
	if s := n.m.ScrubStats(); s.Failures != 1 || s.Segments != 1 || h.State().Role != partition.Leader {
		t.Fatalf("%+v, %+v", s, h.State().Mark)
	}
	toggle.On()
	n.rt.advance(11 * 60 * 1000)
	n.flushAll()
	if s := n.m.ScrubStats(); s.Failures != 2 || h.State().Role != partition.Offline {
		t.Errorf("%+v, %+v", s, h.State().Mark)
	}
}

// TestScrubGarbageList: whatever the list of verified segments holds, nothing fails.
func TestScrubGarbageList(t *testing.T) {
	n, h := scrubbed(t)
	n.scrub()
	n.stop()
	n.rot("/data/"+scrubFile, 10, 1)
	n.start()
	n.register()
	n.scrub()
	if s := n.m.ScrubStats(); s.Segments != 2 || n.m.Get("t", 0).State().Role != partition.Leader {
		t.Errorf("%+v, %+v", s, h.State().Mark)
	}
}

// TestScrubOff: it can be turned off.
func TestScrubOff(t *testing.T) {
	n := newNode(t)
	n.cfg.Own.Scrub.Enable = false
	n.compacting(nil)
	n.add(n.m.Get("t", 0), "a=1", "a=2", "a=3", "a=4", "a=5", "a=6")
	n.scrub()
	if s := n.m.ScrubStats(); s.Bytes > 0 {
		t.Errorf("%+v", s)
	}
}

// TestScrubUnderLoad runs the scrubber beside producers, readers, retention and
// compaction: all is verified again and again, and nothing is wrong.
func TestScrubUnderLoad(t *testing.T) {
	cfg := config.Defaults()
	cfg.Own.Scrub = config.Scrub{Enable: true, BytesPerSecond: 20 << 20, Period: time.Millisecond}
	cfg.Storage.Cleaner.Backoff, cfg.Storage.RetentionCheckInterval = 2*time.Millisecond, 3*time.Millisecond
	h := onDiskAs(t, map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "1", "file.delete.delay.ms": "1",
	}, cfg, memfs.New())
	topic := *h.State().Config
	topic.SegmentBytes = 5000
	h.box.Enter(&configMsg{topic: &topic})
	var working sync.WaitGroup
	for p := range 3 {
		working.Go(func() { countUp(t, h, p, 20, 0, 800) })
	}
	scrubber := h.m.scrubbers[0]
	for h.m.ScrubStats().Segments < 50 {
		scrubber.rested()
		scrubber.look()
		readTable(t, h)
	}
	working.Wait()
	s := h.m.ScrubStats()
	if s.Bytes == 0 || s.Damaged+s.Failures+s.Rebuilt+s.Derived > 0 || h.State().Role != partition.Leader {
		t.Fatalf("%+v, %+v", s, h.State().Mark)
	}
}

// rested has the next look look.
func (s *scrubber) rested() {
	s.mu.Lock()
	s.rest = 0
	s.mu.Unlock()
}
