package host

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// outcome is what a start has made of a disk.
type outcome struct {
	logs map[string]*shown // by topic
}

// shown is what one partition gives its readers.
type shown struct {
	role       partition.Role
	reason     string
	start, end model.Offset
	// batches are what a reader gets who begins at the start, until err.
	batches []record.Batch
	err     error
	// places are where these batches were on the disk before the start.
	places []place
	// found are answers that come from indexes.
	found []string
}

// place is where a batch lies.
type place struct {
	file string
	pos  int
}

// offline says that the partition has given up writing, and said so.
func (s *shown) offline() bool { return s.role == partition.Offline }

// observe reads all partitions.
func observe(n *node) *outcome {
	o := &outcome{logs: map[string]*shown{}}
	for _, topic := range []string{"c", "o", "t"} {
		s := &shown{role: partition.Offline, reason: "not hosted"}
		if h := n.m.Get(topic, 0); h != nil {
			s = look(h.State())
		}
		o.logs[topic] = s
	}
	return o
}

func look(st *State) *shown {
	s := &shown{role: st.Role, reason: st.Reason, start: st.LogStart, end: st.LogEnd}
	if st.View == nil {
		return s
	}
	for at := st.LogStart; at < st.LogEnd && s.err == nil; {
		var b record.Batch
		if b, s.err = oneBatch(st.View, at); s.err != nil || b == nil {
			break
		}
		s.batches = append(s.batches, b)
		at = b.NextOffset()
	}
	for _, b := range s.batches {
		got, ok, err := st.View.OffsetForTimestamp(b.MaxTimestamp(), st.LogEnd)
		s.found = append(s.found, fmt.Sprint(got, ok, err))
	}
	s.found = append(s.found, fmt.Sprint(st.View.AbortedTxns(st.LogStart, st.LogEnd)))
	return s
}

// oneBatch reads the batch that holds an offset, nil at the end.
func oneBatch(v *log.View, at model.Offset) (record.Batch, error) {
	r, err := v.Read(at, v.End(), 1, true)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	b := make([]byte, r.Len())
	if n, err := r.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	if len(b) < record.HeaderSize || len(b) < int(record.SizeOf(b)) {
		return nil, nil
	}
	return record.Batch(b[:record.SizeOf(b)]), nil
}

// locate finds where the batches lie on a disk.
func (s *shown) locate(t testing.TB, disk *memfs.FS, topic string) {
	files := segmentFiles(t, disk, "/data/"+topic+"-0")
	s.places = make([]place, len(s.batches))
	for i, b := range s.batches {
		for _, f := range files {
			if pos := bytes.Index(contentOf(t, disk, f), b); pos >= 0 {
				s.places[i] = place{f, pos}
				break
			}
		}
	}
}

// segmentFiles lists files with batches, those that count first.
func segmentFiles(t testing.TB, disk *memfs.FS, dir string) (files []string) {
	t.Helper()
	names, err := disk.List(dir)
	if err != nil {
		return nil
	}
	var others []string
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, ".log"):
			files = append(files, path.Join(dir, name))
		case strings.Contains(name, ".log"):
			others = append(others, path.Join(dir, name))
		}
	}
	return append(files, others...)
}

func contentOf(t testing.TB, disk *memfs.FS, name string) []byte {
	t.Helper()
	b, err := disk.Content(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// present says which needles are in any file on the disk, kept bytes included.
func present(t testing.TB, disk *memfs.FS, needles [][]byte) []bool {
	found := make([]bool, len(needles))
	left := len(needles)
	var dirs []string
	for _, top := range []string{"/data", keptDir} {
		names, err := disk.List(top)
		if err != nil {
			continue
		}
		for _, name := range names {
			if info, err := disk.Stat(path.Join(top, name)); err == nil && info.IsDir {
				dirs = append(dirs, path.Join(top, name))
			}
		}
	}
	for _, dir := range dirs {
		for _, f := range segmentFiles(t, disk, dir) {
			b := contentOf(t, disk, f)
			for i, x := range needles {
				if left > 0 && !found[i] && bytes.Contains(b, x) {
					found[i] = true
					left--
				}
			}
		}
	}
	return found
}

// needles are what may not get lost of a topic: whole batches, or the last values of
// keys.
func (l *life) needles(topic string) (all [][]byte) {
	if topic != "c" {
		return l.batches[topic]
	}
	for _, k := range slices.Sorted(mapKeys(l.latest)) {
		all = append(all, l.latest[k])
	}
	return all
}

func mapKeys(m map[string][]byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m { // order-free: sorted by the caller
			if !yield(k) {
				return
			}
		}
	}
}

// trial is one start on a damaged disk, and what is wrong with it.
type trial struct {
	t     testing.TB
	u     *ruin
	h     *harm
	disk  *memfs.FS // damaged, before the start
	limit map[string]int
	wrong []string
	// quarantined and cut count outcomes, so that a matrix in which nothing ever
	// happens is noticed.
	quarantined, shortened, refused bool
}

// inSegment says whether batches were damaged.
func (c *trial) inSegment() bool {
	return c.h != nil && strings.Contains(path.Base(c.h.file), ".log") && path.Dir(c.h.file) != "/data"
}

// unfinishedOutput says whether the output of a compaction lost its end, as a whole
// batch, or all, between its name's coming to count and the end of its sources: nothing
// tells.
func (c *trial) unfinishedOutput() bool {
	if c.h == nil || !strings.HasSuffix(c.h.file, ".log.swap") {
		return false
	}
	if at := batchesOf(c.h.now); !c.h.gone && len(at) > 0 && at[len(at)-1][1] != len(c.h.now) {
		return false
	}
	c.limit["the unfinished output of a compaction that ends early with a whole batch, or is gone"]++
	return true
}

func (c *trial) fault(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// run starts the broker twice and judges. again chooses how it ends in between.
func (c *trial) run(again int) {
	t := c.t
	topics := c.h.topics()
	before := map[string][]bool{}
	for _, topic := range topics {
		before[topic] = present(t, c.disk, c.u.scene.life.needles(topic))
	}
	n := c.u.node(t, c.disk.Fork())
	sum, err := n.tryStart()
	if err != nil {
		c.refusal(n, err)
		return
	}
	if got := n.dirs.Report().Stop; c.h == nil && got != c.u.stop {
		c.fault("a stop of kind %s, want %s", got, c.u.stop)
	}
	n.register()
	n.flushAll()
	first := observe(n)
	c.judge(n, first, sum)
	files := c.files(n.disk)
	switch {
	case again%3 == 0:
		n.stop()
	case again%3 == 1 && c.u.stop == log.StopPower:
		n.power() // before, all that was left was on the disk for good
	default:
		n.kill()
	}
	if _, err := n.tryStart(); err != nil {
		c.fault("the second start: %v", err)
		return
	}
	// What the first start cut may be there again where power took the cut.
	if again%3 != 0 && c.u.stop != log.StopPower && !slices.Equal(files, c.files(n.disk)) {
		c.fault("the second start changed segments: %v, then %v", names(files), names(c.files(n.disk)))
	}
	for _, topic := range topics {
		after := present(t, n.disk, c.u.scene.life.needles(topic))
		for i, was := range before[topic] {
			if was && !after[i] && !c.unfinishedOutput() {
				c.fault("%s: a batch that was on the disk is neither there nor kept: %q", topic, c.u.scene.life.needles(topic)[i])
			}
		}
	}
	n.register()
	n.flushAll()
	second := observe(n)
	c.same(first, second)
	for _, topic := range []string{"c", "o", "t"} {
		c.writes(n, topic, second.logs[topic])
	}
}

func names(files []string) (list []string) {
	for i := 0; i < len(files); i += 2 {
		list = append(list, fmt.Sprint(path.Base(files[i]), " ", len(files[i+1])))
	}
	return list
}

// files are the segments of all partitions, by name and content.
func (c *trial) files(disk *memfs.FS) (all []string) {
	for _, topic := range []string{"c", "o", "t"} {
		for _, f := range segmentFiles(c.t, disk, "/data/"+topic+"-0") {
			if strings.HasSuffix(f, ".log") {
				all = append(all, f, string(contentOf(c.t, disk, f)))
			}
		}
	}
	return all
}

// refusal judges a broker that does not start: only a meta.properties that is whole
// and another's explains that.
func (c *trial) refusal(n *node, err error) {
	c.refused = true
	if c.h == nil || path.Base(c.h.file) != checkpoint.MetaPropertiesFile || !errors.Is(err, ErrForeignDir) {
		c.fault("the broker doesn't start: %v", err)
	}
	for _, f := range filesUnder(c.t, c.disk, "/data") {
		if path.Dir(f) == "/data" {
			continue // the marker of an orderly stop is gone
		}
		if was, err := n.disk.Content(f); err != nil || !bytes.Equal(was, contentOf(c.t, c.disk, f)) {
			c.fault("%s was touched though the start is refused", f)
		}
	}
}

// same compares the two starts. The second may come upon damage that the first, after
// an orderly stop, did not look for.
func (c *trial) same(a, b *outcome) {
	for topic, x := range a.logs { // order-free: each is its own
		y := b.logs[topic]
		if x.err != nil && y.err != nil {
			continue // what a reader may be given depends on where he begins
		}
		if y.offline() && y.reason != "" && (c.inSegment() || c.h != nil && path.Base(c.h.file) == checkpoint.EpochFile) {
			continue
		}
		if x.offline() != y.offline() || !equalBatches(x.batches, y.batches) || !x.offline() && (x.start != y.start || x.end != y.end) {
			c.fault("%s: the second start makes [%d, %d) in %d batches %q (%v) of it, the first [%d, %d) in %d %q (%v)",
				topic, y.start, y.end, len(y.batches), y.reason, y.err, x.start, x.end, len(x.batches), x.reason, x.err)
		}
	}
}

func equalBatches(a, b []record.Batch) bool {
	return slices.EqualFunc(a, b, func(x, y record.Batch) bool { return bytes.Equal(x, y) })
}

// writes checks that whoever is not offline takes records, and knows its producers.
func (c *trial) writes(n *node, topic string, s *shown) {
	h := n.m.Get(topic, 0)
	b := n.keyed("x=1")
	switch {
	case s.offline():
		if h == nil {
			return
		}
		if a := n.send(h, 1, b); len(a.produced) != 1 || a.produced[0].Code != partition.CodeStorageError {
			c.fault("%s: offline, and answers %+v", topic, a.produced)
		}
		return
	case topic == "t":
		c.retries(n, h, s)
	}
	end := h.State().LogEnd
	if a := n.send(h, 1, b); len(a.produced) != 1 || a.produced[0].Code != 0 || a.produced[0].BaseOffset != end {
		c.fault("%s: a record at the end, %d, is answered %+v", topic, end, a.produced)
	}
}

// retries sends what an idempotent producer sent last.
func (c *trial) retries(n *node, h *Hosted, s *shown) {
	l := c.u.scene.life
	at := slices.IndexFunc(s.batches, func(b record.Batch) bool { return bytes.Equal(b[covered:], l.retry[covered:]) })
	if at < 0 {
		return
	}
	end := h.State().LogEnd
	a := n.send(h, 1, bytes.Clone(l.retry))
	if len(a.produced) != 1 || a.produced[0].Code != 0 || a.produced[0].BaseOffset != s.batches[at].BaseOffset() || h.State().LogEnd != end {
		c.fault("t: a retry of what is at %d is answered %+v; the log ended at %d, now at %d", s.batches[at].BaseOffset(), a.produced, end, h.State().LogEnd)
	}
}
