package host

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/faultfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

// The matrix of damage begins with a broker's life: a plain topic "t" with every
// kind of file, a compacted topic "c", and a topic "o" that nothing is done to. In
// front of each change of the disk a picture is taken. Each picture, after each kind
// of stop, is a disk that can be damaged.

// scene is a picture of the disk and what was known when it was taken.
type scene struct {
	life *life
	op   faultfs.Op // the change that has not happened
	step string
	disk *memfs.FS
	img  *metadata.Image
	boot string
	past map[string][][]byte // what files have held up to then
	// ends are where logs ended by what was acknowledged; partitions that are not
	// in it have no acknowledged record.
	ends map[model.TopicPartition]model.Offset
}

// life is one broker's, with its pictures.
type life struct {
	t      testing.TB
	n      *node
	scenes []*scene
	last   *scene // after all steps, nothing under way
	clean  *scene // after an orderly stop
	step   string
	watch  bool
	ends   map[model.TopicPartition]model.Offset
	// past are the different contents that each file has had between steps, oldest
	// first.
	past map[string][][]byte
	// batches are all that a log may hold, without what no checksum covers.
	batches map[string][][]byte
	// latest are the last records of each key of topic c, as bytes.
	latest map[string][]byte
	retry  record.Batch // the last batch of an idempotent producer in t
	at     model.Offset // where it is
}

// covered is what a batch's checksum covers.
const covered = 21

// tiny makes segments of about three small batches.
func tiny(name string, c *config.Topic) {
	c.IndexIntervalBytes = 100
	if name != "o" {
		c.SegmentBytes = 420
	}
}

// wholeLife plays the life.
func wholeLife(t testing.TB) *life {
	l := &life{
		t: t, past: map[string][][]byte{}, batches: map[string][][]byte{}, latest: map[string][]byte{},
		ends: map[model.TopicPartition]model.Offset{},
	}
	n := newNode(t)
	l.n = n
	n.tune = tiny
	n.topic["c"] = map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "file.delete.delay.ms": "1000"}
	n.topic["t"] = map[string]string{"retention.ms": "-1"}
	n.fs = faultfs.Wrap(n.disk, faultfs.When(faultfs.Mutations(), faultfs.Stall(l.picture)))
	n.start()
	n.register()
	for _, name := range []string{"c", "o", "t"} {
		n.create(name, 1)
	}
	n.flushAll()
	n.stop()
	l.transactions()
	n.start()
	n.register()
	l.watch = true
	for _, s := range l.steps() {
		l.step = s.name
		s.run()
		l.remember()
	}
	l.watch = false
	l.last = l.take(faultfs.Op{})
	l.step, l.watch = "stop", true
	n.stop()
	l.watch = false
	l.clean = l.take(faultfs.Op{})
	return l
}

// picture is taken in front of each change of the disk.
func (l *life) picture(op faultfs.Op) {
	if l.watch {
		l.scenes = append(l.scenes, l.take(op))
	}
}

func (l *life) take(op faultfs.Op) *scene {
	ends := make(map[model.TopicPartition]model.Offset, len(l.ends))
	for tp, o := range l.ends { // order-free: a copy
		ends[tp] = o
	}
	return &scene{life: l, op: op, step: l.step, disk: l.n.disk.Fork(), img: l.n.img, boot: l.n.boot, past: l.past, ends: ends}
}

// transactions writes the beginning of t's log as another broker would have that has
// transactions.
func (l *life) transactions() {
	t := l.t
	tp := model.TopicPartition{Topic: "t"}
	plog, _, err := log.Open(log.Options{
		FS: l.n.fs, Dir: "/data/t-0", Partition: tp, Config: log.Config{SegmentBytes: 420, IndexIntervalBytes: 100},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []logtest.Spec{
		{Base: 0, Records: 2, Timestamp: 1000},
		{Base: 2, Producer: 9, Txn: true, Records: 2, Timestamp: 2000},
		{Base: 4, Producer: 9, Txn: true, Marker: "abort", Timestamp: 2001},
		{Base: 5, Producer: 9, Txn: true, Sequence: 2, Timestamp: 3000},
		{Base: 6, Producer: 9, Txn: true, Marker: "commit", Timestamp: 3001},
	} {
		b := logtest.Batch(spec)
		l.knows("t", b)
		if _, err := plog.Append(model.Now{}, b); err != nil {
			t.Fatal(err)
		}
	}
	l.ends[tp] = plog.LogEnd()
	if err := plog.Close(true); err != nil {
		t.Fatal(err)
	}
	points := checkpoint.Offsets{tp: plog.LogEnd()}
	if err := checkpoint.WriteOffsets(l.n.fs, "/data/"+checkpoint.RecoveryPointFile, points); err != nil {
		t.Fatal(err)
	}
}

// truncate has the log of t cut as a follower's is: what was cut was durable.
func (l *life) truncate() {
	n, tp := l.n, model.TopicPartition{Topic: "t"}
	must := func(err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
	}
	n.stop()
	must(checkpoint.RemoveCleanShutdown(n.fs, "/data/"+checkpoint.CleanShutdownFile))
	const file = "/data/" + checkpoint.RecoveryPointFile
	point := func(o model.Offset) error {
		points, err := checkpoint.ReadOffsets(n.fs, file)
		if err != nil {
			return err
		}
		points[tp] = o
		return checkpoint.WriteOffsets(n.fs, file, points)
	}
	plog, _, err := log.Open(log.Options{
		FS: n.fs, Dir: "/data/t-0", Partition: tp, RecoveryPoint: l.ends[tp], LowerRecoveryPoint: point,
		Config: log.Config{SegmentBytes: 420, IndexIntervalBytes: 100},
	})
	must(err)
	end, epoch := plog.LogEnd(), plog.Epochs().LatestEpoch()
	for salt, records := range []int{2, 3} {
		b := logtest.Batch(logtest.Spec{Base: end, Epoch: epoch, Records: records, Salt: salt + 1, Timestamp: 1_700_000_000_000})
		_, err := plog.Append(model.Now{}, b)
		must(err)
		job := plog.StartFlush()
		must(plog.FinishFlush(job, job.Run()))
		must(point(plog.RecoveryPoint()))
		if salt > 0 {
			l.knows("t", b)
			break
		}
		_, err = plog.Truncate(end)
		must(err)
		_, err = plog.Reclaim()
		must(err)
	}
	l.ends[tp] = plog.LogEnd()
	must(plog.Close(true))
	n.start()
	n.register()
}

func (l *life) knows(topic string, b record.Batch) {
	l.batches[topic] = append(l.batches[topic], bytes.Clone(b[covered:]))
}

// step is one thing that happens in the life.
type lifeStep struct {
	name string
	run  func()
}

func (l *life) steps() []lifeStep {
	n := l.n
	plain := func(topic string, count int, o record.Options) func() {
		return func() { l.produce(topic, l.text(topic, count, o)) }
	}
	gzip := record.Options{Codec: compress.Gzip}
	idem := func(seq model.Sequence) record.Options {
		return record.Options{Idempotent: true, ProducerID: 7, BaseSequence: seq}
	}
	return []lifeStep{
		{"append", plain("t", 3, record.Options{})},
		{"append", plain("o", 2, record.Options{})},
		{"append", func() { l.keyed("a=c00 b=c01"); l.keyed("a=c02 d=c03") }},
		{"append", plain("t", 2, idem(0))},
		{"flush", n.flushAll},
		{"checkpoint", func() { n.rt.advance(61_000); n.flushAll() }},
		{"roll", plain("t", 4, gzip)},
		{"restart", func() { n.stop(); n.start(); n.register() }},
		{"append", plain("t", 2, idem(2))},
		{"roll", plain("t", 6, record.Options{})},
		{"truncate", l.truncate},
		{"compact", func() {
			for _, words := range []string{"b=c04", "a=c05 e=c06", "d=c07", "f=c08 g=c09", "b=c10", "h=c11"} {
				l.keyed(words)
				n.flushAll()
			}
			n.rt.advance(61_000)
			n.flushAll()
			for range 8 {
				n.rt.advance(15_000)
				n.flushAll()
			}
		}},
		{"delete records", func() {
			a := &answers{}
			n.m.Get("t", 0).DeleteRecords(2, n.rt.Now().Mono+1<<40, a, 0)
			n.rt.idle()
			n.flushAll()
		}},
		{"checkpoint", func() { n.rt.advance(61_000); n.flushAll(); n.rt.advance(61_000); n.flushAll() }},
		{"restart", func() { n.stop(); n.start(); n.register() }},
		{"append", plain("t", 2, record.Options{Codec: compress.Gzip})},
		{"flush", n.flushAll},
		{"checkpoint", func() { n.rt.advance(61_000); n.flushAll(); n.rt.advance(61_000); n.flushAll() }},
		{"append", plain("t", 1, idem(4))},
		{"append", func() { l.keyed("a=c12"); l.keyed("i=c13") }},
		{"append", plain("o", 2, record.Options{})},
		{"append", plain("t", 1, idem(5))},
	}
}

// text is a batch of records that no other batch has.
func (l *life) text(topic string, count int, o record.Options) record.Batch {
	b := record.NewBuilder(o)
	for i := range count {
		b.Append(l.n.rt.Now().Wall+model.Timestamp(i), nil, fmt.Appendf(nil, "%s%02d.%d", topic, len(l.batches[topic]), i))
	}
	return b.Build()
}

func (l *life) keyed(words string) {
	b := l.n.keyed(words)
	for _, word := range strings.Fields(words) {
		k, v, _ := strings.Cut(word, "=")
		l.latest[k] = []byte(v)
	}
	l.produce("c", b)
}

func (l *life) produce(topic string, b record.Batch) {
	h := l.n.m.Get(topic, 0)
	at := h.State().LogEnd
	a := l.n.send(h, 1, bytes.Clone(b))
	a.want(l.t, 0, at)
	if topic != "c" {
		l.knows(topic, b)
	}
	if b.ProducerID() == 7 {
		l.retry, l.at = bytes.Clone(b), at
	}
	l.ends[model.TopicPartition{Topic: topic}] = h.State().LogEnd
}

// remember notes what every file holds.
func (l *life) remember() {
	l.past = maps.Clone(l.past) // scenes have the old one
	for _, name := range filesUnder(l.t, l.n.disk, "/data") {
		b, err := l.n.disk.Content(name)
		if err != nil {
			l.t.Fatal(err)
		}
		seen := l.past[name]
		if k := len(seen); k == 0 || !bytes.Equal(seen[k-1], b) {
			l.past[name] = append(seen[:k:k], bytes.Clone(b))
		}
	}
}

// filesUnder lists all files below a directory.
func filesUnder(t testing.TB, fs vfs.FS, dir string) (all []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		p := path.Join(dir, name)
		info, err := fs.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir {
			all = append(all, filesUnder(t, fs, p)...)
		} else if name != checkpoint.LockFile {
			all = append(all, p)
		}
	}
	return all
}

// ending is a kind of stop.
type ending struct {
	name string
	// stop: what the broker must find out.
	stop log.Stop
	die  func(*memfs.FS, *rand.Rand) *memfs.FS
}

// endings are those of a broker that doesn't get to its end.
func endings() []ending {
	return []ending{
		{"kill", log.StopProcess, func(fs *memfs.FS, _ *rand.Rand) *memfs.FS { return fs.KillClone(memfs.Kill{}) }},
		{"power", log.StopPower, func(fs *memfs.FS, _ *rand.Rand) *memfs.FS { return fs.CrashClone(memfs.Crash{}) }},
		{"torn kill", log.StopProcess, func(fs *memfs.FS, r *rand.Rand) *memfs.FS {
			return fs.KillClone(memfs.Kill{Cut: memfs.CutAnywhere(r)})
		}},
		{"torn power", log.StopPower, func(fs *memfs.FS, r *rand.Rand) *memfs.FS {
			return fs.CrashClone(memfs.Crash{UnsyncedPct: 60, Torn: true, Rand: r})
		}},
	}
}

// ruin is a disk as a stop has left it.
type ruin struct {
	scene *scene
	end   string
	stop  log.Stop
	disk  *memfs.FS
	// floor is below what nothing may be missing.
	floor map[model.TopicPartition]model.Offset
	// whole is what an undamaged start makes of it.
	whole *outcome
}

// after is the disk of a scene after an ending.
func (s *scene) after(t testing.TB, e ending, r *rand.Rand) *ruin {
	u := &ruin{scene: s, end: e.name, stop: e.stop, disk: e.die(s.disk.Fork(), r)}
	u.floor = s.ends
	if _, err := u.disk.Stat("/data/" + checkpoint.CleanShutdownFile); err == nil {
		u.stop = log.StopClean // it died behind its last word
	}
	if e.stop == log.StopPower || strings.HasPrefix(e.name, "torn") {
		u.floor = u.points(t)
	}
	return u
}

// orderly is the disk after an orderly stop.
func (l *life) orderly() *ruin {
	return &ruin{scene: l.clean, end: "stop", stop: log.StopClean, disk: l.clean.disk.Fork(), floor: l.ends}
}

// points are the recovery points on the disk.
func (u *ruin) points(t testing.TB) map[model.TopicPartition]model.Offset {
	t.Helper()
	points, err := checkpoint.ReadOffsets(u.disk, "/data/"+checkpoint.RecoveryPointFile)
	if err != nil {
		t.Fatal(err)
	}
	return points
}

func (u *ruin) String() string {
	s := u.end
	if u.scene.op.Path != "" {
		s = fmt.Sprintf("%s in front of %s, in %q", u.end, u.scene.op, u.scene.step)
	}
	return s
}

// node is a broker on that disk, or on a damaged copy of it.
func (u *ruin) node(t testing.TB, disk *memfs.FS) *node {
	l := u.scene.life
	n := &node{
		t: t, disk: disk, fs: disk, paths: l.n.paths, boot: u.scene.boot, cfg: l.n.cfg, img: u.scene.img,
		topic: l.n.topic, tune: tiny, self: 1,
	}
	if strings.HasSuffix(u.end, "power") {
		n.boot += "+"
	}
	return n
}
