package host

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/protocol/record"
)

// judge compares what a start made of a damaged disk with what an undamaged start
// makes of it.
func (c *trial) judge(n *node, o *outcome, sum LoadSummary) {
	if c.h == nil {
		c.judgeWhole(o, sum)
		return
	}
	mine := c.h.topics()
	for topic, s := range o.logs { // order-free: each is its own
		want := c.u.whole.logs[topic]
		of := len(mine) == 3 || topic == mine[0]
		switch {
		case s.offline():
			c.judgeOffline(n, topic, s, of)
		case !of:
			c.exact(topic, s, want)
		default:
			c.judgeOnline(n, topic, s, want)
		}
	}
}

// judgeWhole judges a start that nothing was done to.
func (c *trial) judgeWhole(o *outcome, sum LoadSummary) {
	if sum.Offline > 0 || sum.Loaded != 3 {
		c.fault("%+v, want three partitions loaded", sum)
	}
	for topic, s := range o.logs { // order-free: each is its own
		if floor := c.u.floor[model.TopicPartition{Topic: topic}]; s.end < floor || s.err != nil {
			c.fault("%s ends at %d (%v), %d was acknowledged", topic, s.end, s.err, floor)
		}
		next := s.start
		for _, b := range s.batches {
			if b.CheckCRC() != nil || b.BaseOffset() < next && next != s.start || topic != "c" && b.BaseOffset() > next {
				c.fault("%s: batch [%d, %d] where %d is expected", topic, b.BaseOffset(), b.LastOffset(), next)
			}
			next = b.NextOffset()
		}
		if next != s.end {
			c.fault("%s: readers come to %d of %d", topic, next, s.end)
		}
	}
}

// exact wants all that was there, answers out of indexes included.
func (c *trial) exact(topic string, s, want *shown) {
	if s.start != want.start || s.end != want.end || !equalBatches(s.batches, want.batches) || s.err != nil {
		c.fault("%s: [%d, %d) in %d batches (%v), want [%d, %d) in %d", topic, s.start, s.end, len(s.batches), s.err,
			want.start, want.end, len(want.batches))
		return
	}
	for i := range want.found {
		if s.found[i] != want.found[i] {
			c.fault("%s: a look-up gives %s, want %s", topic, s.found[i], want.found[i])
		}
	}
}

// judgeOffline allows a quarantine only where something contradicts, and then with a
// reason and untouched files.
func (c *trial) judgeOffline(n *node, topic string, s *shown, of bool) {
	c.quarantined = true
	if s.reason == "" {
		c.fault("%s is offline without a reason", topic)
	}
	if !of || !c.mayQuarantine() {
		c.fault("%s is offline: %s", topic, s.reason)
	}
	dir := "/data/" + topic + "-0"
	if _, err := n.disk.Stat(dir); err != nil || c.torn() { // its end may have been cut before
		return // set aside as it is: what was in it is looked for
	}
	for _, f := range segmentFiles(c.t, c.disk, dir) {
		if now, err := n.disk.Content(f); err != nil || !bytes.Equal(now, contentOf(c.t, c.disk, f)) {
			c.fault("%s is offline, and %s was touched", topic, f)
		}
	}
}

// mayQuarantine says whether what was damaged can contradict the records. Files that
// can be made anew can not, but for a whole one of another time.
func (c *trial) mayQuarantine() bool {
	name := path.Base(c.h.file)
	switch {
	case c.inSegment(), name == checkpoint.PartitionMetadataFile, name == checkpoint.EpochFile:
		return true
	case strings.HasSuffix(name, ".seal"):
		return c.h.what == "stale"
	case name == checkpoint.RecoveryPointFile:
		return c.u.stop != log.StopClean // another digit promises more than was durable
	case name == checkpoint.CleanShutdownFile, name == runFile:
		return c.torn()
	}
	return false
}

// torn says whether the undamaged start had something to cut: then what says how the
// broker ended decides whether that is damage.
func (c *trial) torn() bool { return c.u.stop != log.StopClean && c.u.end != "kill" }

// judgeOnline judges a partition that serves although something of it was damaged.
func (c *trial) judgeOnline(n *node, topic string, s, want *shown) {
	name := path.Base(c.h.file)
	if !c.inSegment() || !strings.HasPrefix(c.h.file, "/data/"+topic+"-0/") {
		if name == checkpoint.LogStartFile {
			c.otherStart(topic, s, want)
			return
		}
		if name == checkpoint.EpochFile && s.err != nil && len(s.batches) < len(want.batches) {
			c.quarantined = true // by the first reader: it contradicts batches inside a segment
			return
		}
		c.exact(topic, s, want)
		return
	}
	if c.unfinishedOutput() {
		return
	}
	d := c.firstHarmed(want)
	for i, b := range s.batches {
		switch {
		case i >= len(want.batches) && c.written(topic, b):
			return // an older copy knew what power took later, or a torn batch is whole again
		case i >= len(want.batches):
			c.fault("%s: readers get %d batches, there were %d: [%d, %d]", topic, len(s.batches), len(want.batches), b.BaseOffset(), b.LastOffset())
			return
		case bytes.Equal(b, want.batches[i]):
		case i >= d && b.CheckCRC() != nil: // whoever reads it sees that
		case c.knownLimit(topic, i, b, want):
			return
		default:
			c.fault("%s: batch [%d, %d] is served, want [%d, %d]", topic, b.BaseOffset(), b.LastOffset(),
				want.batches[i].BaseOffset(), want.batches[i].LastOffset())
			return
		}
	}
	// Of two batches that contradict each other nobody can tell which was harmed.
	if len(s.batches) < d-1 || len(s.batches) < d && s.err == nil {
		c.fault("%s: readers get %d batches (%v), %d lie before the damage", topic, len(s.batches), s.err, d)
	}
	if s.end < want.end {
		c.judgeCut(topic, s, want, d)
	}
	c.readsBehind(n, topic, s, want, d)
}

// firstHarmed is the first batch that is not where it was.
func (c *trial) firstHarmed(want *shown) int {
	if len(want.places) > 0 && want.places[0].file == c.h.file {
		before := contentOf(c.t, c.u.disk, c.h.file)[:want.places[0].pos]
		if !bytes.HasPrefix(c.h.now, before) {
			return 0 // what was harmed lies below the log's start
		}
	}
	for i, b := range want.batches {
		p := want.places[i]
		if p.file == c.h.file && (len(c.h.now) < p.pos+len(b) || !bytes.Equal(c.h.now[p.pos:p.pos+len(b)], b)) {
			return i
		}
	}
	return len(want.batches)
}

// judgeCut judges a log that ends earlier: a crash must explain it.
func (c *trial) judgeCut(topic string, s, want *shown, d int) {
	c.shortened = true
	if d == len(want.batches) {
		c.fault("%s: ends at %d, want %d, and no batch was harmed", topic, s.end, want.end)
		return
	}
	// A file that ends with a whole batch, or is gone, at the log's end, contradicts
	// nothing but the recovery point, which is by itself no evidence (rule 2.4).
	p := want.places[d]
	if last := want.places[len(want.places)-1]; p.file == last.file && (p.pos == len(c.h.now) || c.h.gone) {
		if c.u.stop != log.StopClean {
			c.limit["a last segment that ends early with a whole batch, or is gone"]++
			return
		}
	}
	at := want.batches[d].BaseOffset()
	floor := c.u.points(c.t)[model.TopicPartition{Topic: topic}]
	switch {
	case c.u.stop == log.StopClean:
		c.fault("%s: cut at %d of %d after an orderly stop", topic, s.end, want.end)
	case at < floor:
		c.fault("%s: cut at %d, below the recovery point %d", topic, s.end, floor)
	case c.u.stop == log.StopProcess:
		for _, b := range want.batches[d+1:] {
			for _, f := range segmentFiles(c.t, c.disk, "/data/"+topic+"-0") {
				if bytes.Contains(contentOf(c.t, c.disk, f), b[covered:]) {
					c.fault("%s: cut at %d though batch [%d, %d] behind is whole: a kill doesn't explain that", topic, s.end, b.BaseOffset(), b.LastOffset())
					return
				}
			}
		}
	}
}

// readsBehind begins to read at each batch: nobody is given another in its place.
func (c *trial) readsBehind(n *node, topic string, s, want *shown, d int) {
	v := n.m.Get(topic, 0).State().View
	for i, w := range want.batches {
		if w.BaseOffset() < s.start || w.BaseOffset() >= s.end {
			continue
		}
		b, err := oneBatch(v, w.BaseOffset())
		if err != nil || b == nil || bytes.Equal(b, w) || i >= d && b.CheckCRC() != nil || c.knownLimit(topic, i, b, want) {
			continue
		}
		c.fault("%s: who reads at %d is given [%d, %d]", topic, w.BaseOffset(), b.BaseOffset(), b.LastOffset())
	}
}

// knownLimit says whether nothing on the disk contradicts a batch that is served.
func (c *trial) knownLimit(topic string, i int, b record.Batch, want *shown) bool {
	if i >= len(want.batches) {
		return false
	}
	was := want.batches[i]
	floor := c.u.points(c.t)[model.TopicPartition{Topic: topic}]
	switch {
	case topic == "c" && c.u.stop == log.StopPower && isOneOf(b, want.batches[i:]):
		c.limit["a batch of a compacted log, of its last segment, that is missing after a loss of power"]++
		return true
	case !bytes.Equal(b[covered:], was[covered:]):
		return false
	case bytes.Equal(b[:12], was[:12]) && b.LeaderEpoch() != was.LeaderEpoch() && c.atEdge(i, want):
		c.limit["the leader epoch of a segment's first or last batch, that only the epoch file contradicts"]++
		return true
	case bytes.Equal(b[:12], was[:12]) && b.LeaderEpoch() != was.LeaderEpoch() && c.u.stop != log.StopClean && was.BaseOffset() >= floor:
		c.limit["a leader epoch above the recovery point, after a crash, that fits in with its neighbours"]++
		return true
	case i == len(want.batches)-1 && c.u.stop != log.StopClean && was.BaseOffset() >= floor:
		c.limit["the base offset of the last batch, above the recovery point, after a crash"]++
		return true
	case topic == "c" && b.BaseOffset() != want.batches[i].BaseOffset():
		c.limit["a base offset in a compacted log that fits into a gap"]++
		return true
	}
	return false
}

func isOneOf(b record.Batch, all []record.Batch) bool {
	return slices.ContainsFunc(all, func(x record.Batch) bool { return bytes.Equal(b, x) })
}

// atEdge says whether a batch is the first or the last of its segment.
func (c *trial) atEdge(i int, want *shown) bool {
	p := want.places
	return i == 0 || i == len(p)-1 || p[i-1].file != p[i].file || p[i+1].file != p[i].file
}

// otherStart judges a log start that was read as another: it may hide or show more,
// but what is shown is what was written.
func (c *trial) otherStart(topic string, s, want *shown) {
	if s.start == want.start {
		c.exact(topic, s, want)
		return
	}
	for _, b := range s.batches {
		if !c.written(topic, b) {
			c.fault("%s: batch [%d, %d] was never written", topic, b.BaseOffset(), b.LastOffset())
		}
	}
}

// written says whether a batch is one that was written. Those of the compacted topic are
// of many forms.
func (c *trial) written(topic string, b record.Batch) bool {
	return b.CheckCRC() == nil && (topic == "c" || slices.ContainsFunc(c.u.scene.life.batches[topic], func(k []byte) bool {
		return bytes.Equal(k, b[covered:])
	}))
}
