package host

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/receipt"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

const testCluster = "cluster-of-tests"

// node is a broker's partitions over a disk in memory, on one goroutine.
type node struct {
	t     testing.TB
	disk  *memfs.FS
	fs    vfs.FS // disk, maybe behind faults
	paths []string
	boot  string
	rt    *fakeRuntime
	flush map[string]*fakeFlusher
	exec  Executor
	cfg   *config.Broker
	dirs  *Dirs
	m     *ReplicaManager
	img   *metadata.Image
	topic map[string]map[string]string // overrides
	// tune changes settings in a way that a topic could not, so that segments stay
	// small from the start on; nil: it changes none.
	tune  func(name string, c *config.Topic)
	epoch model.BrokerEpoch
	self  model.BrokerID
	// leaders is what it follows by; nil: it never follows.
	leaders Leaders
	alters  *alterInbox
	// firstAppends: a new partition's first append waits for the disk, as in
	// production. Tests of other things have that behind them.
	firstAppends bool
}

const keptDir = "/kept"

func newNode(t testing.TB, paths ...string) *node {
	if len(paths) == 0 {
		paths = []string{"/data"}
	}
	n := &node{
		t: t, disk: memfs.New(), paths: paths, boot: "boot-1", cfg: config.Defaults(),
		img: metadata.Empty(), topic: make(map[string]map[string]string), self: 1,
	}
	n.fs = n.disk
	return n
}

// start opens the directories and loads what the image says.
func (n *node) start() LoadSummary {
	n.t.Helper()
	sum, err := n.tryStart()
	if err != nil {
		n.t.Fatalf("start: %v", err)
	}
	return sum
}

func (n *node) tryStart() (LoadSummary, error) {
	if n.rt == nil || n.leaders == nil {
		n.rt = newFakeRuntime()
	}
	n.flush = make(map[string]*fakeFlusher)
	dirs, err := OpenDirs(DirOptions{
		FS: n.fs, Paths: n.paths, NodeID: n.self, Rand: rand.New(rand.NewPCG(1, 2)), Logger: zap.NewNop(),
		Machine: Machine{BootID: func() string { return n.boot }, Mount: func(dir string) string { return "mount " + dir }},
		Kept:    NewKeeper(receipt.New(receipt.Options{FS: n.fs, Dir: keptDir, Node: n.self, BytesMax: 1 << 20, RetentionMs: -1}), n.rt, zap.NewNop()),
	})
	if err != nil {
		return LoadSummary{}, err
	}
	n.dirs = dirs
	if err := dirs.Claim(testCluster); err != nil {
		return LoadSummary{}, err
	}
	n.m = NewReplicaManager(Deps{
		RT: n.rt, FS: n.fs, Dirs: dirs, Self: n.self, Broker: n.cfg, Logger: zap.NewNop(), Leaders: n.leaders,
		Topic: n.settings, Rand: rand.New(rand.NewPCG(3, 4)), Executor: n.exec,
		Flusher: func(dir string) Flusher {
			n.flush[dir] = &fakeFlusher{}
			return n.flush[dir]
		},
		Alter: n.alterSender(), Serial: func(run func()) { run() },
	})
	sum, err := n.m.Load(n.img)
	n.establish()
	return sum, err
}

// alterInbox keeps what leaders propose.
type alterInbox struct {
	h    *Hosted
	last *partition.AlterPartition
}

func (a *alterInbox) SendAlter(h *Hosted, p *partition.AlterPartition) { a.h, a.last = h, p }

func (n *node) alterSender() AlterSender {
	if n.alters == nil {
		return nil
	}
	return n.alters
}

func (n *node) settings(_ *metadata.Image, name string) *config.Topic {
	t, err := n.cfg.Topic(nil, n.topic[name])
	if err != nil {
		n.t.Fatalf("settings of %s: %v", name, err)
	}
	if n.tune != nil {
		n.tune(name, &t)
	}
	return &t
}

// apply commits records and gives the manager the image.
func (n *node) apply(recs ...metadata.Record) {
	n.t.Helper()
	img, delta := n.commit(recs...)
	n.m.Apply(img, delta)
	n.establish()
	n.rt.idle()
}

// establish makes the directories of new partitions durable.
func (n *node) establish() {
	for _, h := range n.m.All() {
		if h.plog == nil || h.established.Load() || n.firstAppends {
			continue
		}
		path := filepath.Join(h.plog.Dir(), checkpoint.PartitionMetadataFile)
		h.established.Store(checkpoint.WritePartitionMetadata(n.fs, path, checkpoint.PartitionMetadata{TopicID: h.id.TopicID}) == nil)
	}
}

// commit only changes the image.
func (n *node) commit(recs ...metadata.Record) (*metadata.Image, *metadata.Delta) {
	n.t.Helper()
	img, delta, err := metadata.Apply(n.img, model.OffsetAndEpoch{Offset: n.img.At().Offset + 1, Epoch: 1}, recs)
	if err != nil {
		n.t.Fatalf("apply: %v", err)
	}
	n.img = img
	return img, delta
}

// register is what a broker does at start: the controller deposes its former
// life, gives it an epoch, and has it lead again.
func (n *node) register() {
	n.t.Helper()
	if n.img.Broker(1) != nil {
		n.apply(&metadata.BrokerEpochBump{ID: 1, Stop: metadata.StopProcess})
	}
	n.apply(&metadata.RegisterBroker{ID: 1, Epoch: model.NoBrokerEpoch})
	n.epoch = n.img.Broker(1).Epoch
	n.m.Registered(n.epoch)
	n.apply(&metadata.BrokerChange{ID: 1, Epoch: n.epoch, Fenced: metadata.Clear})
	for t := range n.img.Topics() {
		for p, reg := range t.Partitions {
			if reg.Leader == model.NoLeader && reg.InISR(1) {
				c := metadata.NewPartitionChange(t.ID, int32(p))
				c.Leader = 1
				n.apply(c)
			}
		}
	}
}

// create makes a topic that this broker leads.
func (n *node) create(name string, partitions int) {
	n.t.Helper()
	n.apply(topicRecords(name, partitions)...)
}

func topicID(name string) (id model.TopicID) {
	copy(id[:], name)
	id[15] = 9
	return id
}

func topicRecords(name string, partitions int) []metadata.Record {
	recs := []metadata.Record{&metadata.TopicRecord{Name: name, ID: topicID(name)}}
	for p := range partitions {
		recs = append(recs, &metadata.PartitionRecord{
			TopicID: topicID(name), Partition: int32(p),
			PartitionRegistration: metadata.PartitionRegistration{
				Replicas: []model.BrokerID{1}, ISR: []model.BrokerID{1}, Leader: 1,
			},
		})
	}
	return recs
}

// boot is a fresh node that leads one partition t-0.
func leading(t testing.TB, overrides map[string]string) (*node, *Hosted) {
	n := newNode(t)
	n.topic["t"] = overrides
	n.start()
	n.register()
	n.create("t", 1)
	h := n.m.Get("t", 0)
	if h == nil || h.State().Role != partition.Leader {
		t.Fatalf("t-0 is not led: %+v", h)
	}
	return n, h
}

// flushAll runs fsyncs and what follows from them until nothing is left.
func (n *node) flushAll() {
	for {
		done := 0
		for _, p := range n.paths {
			if f := n.flush[p]; f != nil {
				done += f.run()
			}
		}
		n.rt.idle()
		if done == 0 {
			return
		}
	}
}

// answers collects what waiters are told.
type answers struct {
	produced []ProduceResult
	ready    []int32
	deleted  []string
	found    []ProducerInfo
}

func (a *answers) ProduceDone(_ int32, r ProduceResult) { a.produced = append(a.produced, r) }
func (a *answers) FetchReady(slot int32)                { a.ready = append(a.ready, slot) }
func (a *answers) DeleteRecordsDone(_ int32, c Code, low model.Offset) {
	a.deleted = append(a.deleted, fmt.Sprintf("%d %d", c, low))
}
func (a *answers) ProducersDone(_ int32, _ Code, p []ProducerInfo) { a.found = p }

// batchOf builds a batch of n records of 10 bytes.
func batchOf(n int, pid model.ProducerID, seq model.Sequence) record.Batch {
	b := record.NewBuilder(record.Options{Idempotent: pid >= 0, ProducerID: pid, BaseSequence: seq})
	for i := range n {
		b.Append(1_700_000_000_000+model.Timestamp(i), nil, []byte("0123456789"))
	}
	return b.Build()
}

// send produces a batch and returns the collector of its answer.
func (n *node) send(h *Hosted, acks int16, batch record.Batch) *answers {
	n.t.Helper()
	a := &answers{}
	rules := record.DefaultRules(n.rt.Now().Wall)
	if h.State().Config.MessageTimestampType == config.LogAppendTime {
		rules.TimestampType = record.LogAppendTime
	}
	prepared, reject := record.Validate(batch, &rules)
	h.Produce(ProduceMsg{
		Prepared: prepared, Reject: reject, Acks: acks, Waiter: a,
		Deadline: n.rt.Now().Mono + 30_000_000_000,
	})
	return a
}

// want checks the one answer.
func (a *answers) want(t testing.TB, code Code, base model.Offset) {
	t.Helper()
	if len(a.produced) != 1 {
		t.Fatalf("%d answers, want 1", len(a.produced))
	}
	if r := a.produced[0]; r.Code != code || r.BaseOffset != base {
		t.Fatalf("code %d, base %d (%s), want %d, %d", r.Code, r.BaseOffset, r.Message, code, base)
	}
}

// stop ends the node in order.
func (n *node) stop() {
	n.t.Helper()
	if err := n.m.Shutdown(true); err != nil {
		n.t.Fatalf("shutdown: %v", err)
	}
	n.dirs.Close()
}

// kill ends the process; the page cache survives.
func (n *node) kill() {
	n.disk = n.disk.KillClone(memfs.Kill{})
	n.fs = n.disk
}

// power cuts the power; only what was synced is left.
func (n *node) power() {
	n.disk = n.disk.CrashClone(memfs.Crash{})
	n.fs, n.boot = n.disk, n.boot+"+"
}

// values reads all records from the log.
func values(t testing.TB, s *State) int {
	t.Helper()
	count := 0
	err := s.View.Batches(s.LogStart, make([]byte, 1<<20), func(b record.Batch) error {
		count += int(b.Count())
		return nil
	})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return count
}

var _ = log.StopClean
