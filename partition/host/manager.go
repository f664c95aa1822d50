package host

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition"
)

// AlterSender sends AlterPartition proposals to the active controller, and
// hands the answers to Hosted.AlterAnswered.
type AlterSender interface {
	// SendAlter is called after the partition's loop was released. It returns at
	// once.
	SendAlter(h *Hosted, a *partition.AlterPartition)
}

// Deps is what a ReplicaManager needs of the node.
type Deps struct {
	RT   loop.Runtime
	FS   vfs.FS
	Dirs *Dirs
	Self model.BrokerID
	// Broker is the process's settings.
	Broker *config.Broker
	// Topic returns a topic's settings under an image. It may be called from
	// several goroutines at a time.
	Topic  func(img *metadata.Image, name string) *config.Topic
	Logger *zap.Logger
	// Rand draws segment jitter and the names of retired directories.
	Rand *rand.Rand
	// Group runs loaders and flushers. Nil loads one partition after another, on
	// the caller's goroutine, as a simulator needs it; Flusher must be set then.
	Group *lifecycle.Group
	// Executor decides when writes happen; nil is Inline.
	Executor Executor
	// Flusher makes a directory's Flusher; nil is NewFlusher.
	Flusher func(dir string) Flusher
	// Alter sends AlterPartition; nil drops them, for a node that is alone.
	Alter AlterSender
	// Leaders opens connections to the brokers that lead; nil: this node never
	// follows.
	Leaders Leaders
	// Serial has a function called in line with Load, Apply and Shutdown. Nil: nobody
	// else calls those meanwhile.
	Serial func(run func())
	// Trouble is told, outside every loop, that a partition has gone offline because
	// of its disk or is stalled: FailedReplicas and Stalled say which. May be nil.
	Trouble func()
	// SpareRoom, if not nil, is asked to free some of what the node has set aside on the
	// disk of a log directory, for something that makes room there; it reports whether it
	// did. It may be called from any goroutine, outside every loop.
	SpareRoom func(dir string) bool
	// Files bounds open segment files over all partitions; nil makes one for them all.
	Files *log.FileCache
}

// ReplicaManager holds the partitions of one broker. Its methods may be called
// from any goroutine but for Load, Apply and Shutdown, which one goroutine calls
// in order. Those may wait for the disk, so that goroutine is not a loop's.
type ReplicaManager struct {
	deps   Deps
	logger *zap.Logger
	events eventLog
	ops    produceOps

	fetchLoops fetchLoops
	followed   followCounts
	// heardAt is when a controller with a confirmed term was heard last.
	heardAt  atomic.Int64
	counters counters

	index atomic.Pointer[index]
	// without counts the partitions that are offline because they have no log, a damaged
	// one or one that the disk refused, and the directories that were set aside, since
	// revive looked last and found none.
	without  atomic.Int64
	reviving atomic.Bool // asked for, and not begun

	// What follows belongs to the goroutine that calls Load, Apply and Shutdown.
	image *metadata.Image
	// fedUnder is the broker epoch under which registrations were given to every
	// partition.
	fedUnder model.BrokerEpoch

	// asides are the directories of spoilt replicas that were set aside, and refills
	// when a replica was filled anew last.
	asides  []*asideDir
	refills map[model.TopicIDPartition]refillTry

	// registeredAt is the broker epoch, -1 before the registration.
	registeredAt atomic.Int64
	tasks        []*task
	cleanerTask  *task // one of tasks; nil if nothing is compacted
	// imageAt is the metadata offset of the newest image applied.
	imageAt atomic.Int64

	// scratch is what loops at work share.
	scratch sync.Pool

	drawsMu sync.Mutex
	draws   *rand.Rand

	retiredMu sync.Mutex
	retired   []retiredDir
	doomed    []doomed

	wall    wallClock
	cleaner cleaner
	// scrubbers are one a directory, none if nothing is to be scrubbed. Set once.
	scrubbers []*scrubber
	scrubs    scrubCounts
	errands   errands
}

// index finds partitions. It is immutable.
type index struct {
	names map[string]*hostedTopic
	ids   map[model.TopicID]*hostedTopic
	// all is the answer to All, made when it is first asked for.
	all func() []*Hosted
}

// hostedTopic is one topic's hosted partitions, by number; nil where this broker
// has none. Immutable.
type hostedTopic struct {
	id    model.TopicID
	parts []*Hosted
}

// NewReplicaManager returns a manager without partitions; Load brings them.
func NewReplicaManager(d Deps) *ReplicaManager {
	if d.Executor == nil {
		d.Executor = Inline{}
	}
	if d.Files == nil {
		d.Files = log.NewFileCache(0, 0)
	}
	if d.Flusher == nil {
		d.Flusher = func(dir string) Flusher { return NewFlusher(dir, d.Group) }
	}
	m := &ReplicaManager{
		deps: d, logger: d.Logger, events: eventLog{logger: d.Logger},
		draws: rand.New(rand.NewPCG(d.Rand.Uint64(), d.Rand.Uint64())),
	}
	m.events.counters = &m.counters
	m.wall.steady(d.RT.Now())
	m.cleaner.init(m)
	if d.Broker.Own.Scrub.Enable {
		for _, dir := range d.Dirs.All() {
			m.scrubbers = append(m.scrubbers, newScrubber(m, dir))
		}
	}
	m.errands.init()
	m.registeredAt.Store(int64(model.NoBrokerEpoch))
	m.fedUnder = model.NoBrokerEpoch - 1 // none, not even that of no registration
	m.publish(&index{})
	m.fetchLoops = fetchLoops{m: m, loops: make(map[fetchKey]*fetchLoop)}
	for _, dir := range d.Dirs.All() {
		if dir.Online() {
			dir.flusher = d.Flusher(dir.path)
		}
	}
	return m
}

// Get returns a partition of this broker by name, nil if it hosts none. It does
// not allocate.
func (m *ReplicaManager) Get(topic string, p int32) *Hosted {
	return m.index.Load().names[topic].part(p)
}

// GetByID returns a partition of this broker by topic id, nil if it hosts none.
func (m *ReplicaManager) GetByID(tp model.TopicIDPartition) *Hosted {
	return m.index.Load().ids[tp.TopicID].part(tp.Partition)
}

func (t *hostedTopic) part(p int32) *Hosted {
	if t == nil || p < 0 || int(p) >= len(t.parts) {
		return nil
	}
	return t.parts[p]
}

// All returns every partition of this broker, sorted by topic name and number.
// The caller may not change what it gets.
func (m *ReplicaManager) All() []*Hosted { return m.index.Load().all() }

func (idx *index) sorted() []*Hosted {
	var all []*Hosted
	for _, name := range slices.Sorted(maps.Keys(idx.names)) {
		for _, h := range idx.names[name].parts {
			if h != nil {
				all = append(all, h)
			}
		}
	}
	return all
}

// publish makes an index the one that is searched.
func (m *ReplicaManager) publish(idx *index) {
	idx.all = sync.OnceValue(idx.sorted)
	m.index.Store(idx)
}

// change replaces the index by one with the given partitions added and removed.
func (m *ReplicaManager) change(add, drop []*Hosted) {
	old := m.index.Load()
	next := &index{names: make(map[string]*hostedTopic, len(old.names)), ids: make(map[model.TopicID]*hostedTopic, len(old.ids))}
	for name, t := range old.names { // order-free: a copy
		next.names[name] = t
		next.ids[t.id] = t
	}
	fresh := make(map[*hostedTopic]bool)
	own := func(h *Hosted) *hostedTopic {
		t := next.ids[h.id.TopicID]
		if t == nil {
			t = &hostedTopic{id: h.id.TopicID}
		} else if !fresh[t] {
			t = &hostedTopic{id: t.id, parts: slices.Clone(t.parts)}
		}
		fresh[t] = true
		next.ids[t.id] = t
		return t
	}
	for _, h := range drop {
		t := own(h)
		if t.part(h.id.Partition) == h {
			t.parts[h.id.Partition] = nil
		}
		if next.names[h.tp.Topic] == nil || next.names[h.tp.Topic].id == t.id {
			next.names[h.tp.Topic] = t
		}
	}
	for _, h := range add {
		t := own(h)
		for int(h.id.Partition) >= len(t.parts) {
			t.parts = append(t.parts, nil)
		}
		t.parts[h.id.Partition] = h
		next.names[h.tp.Topic] = t
	}
	for _, h := range drop {
		if t := next.ids[h.id.TopicID]; t != nil && !slices.ContainsFunc(t.parts, func(p *Hosted) bool { return p != nil }) {
			delete(next.ids, t.id)
			if next.names[h.tp.Topic] == t {
				delete(next.names, h.tp.Topic)
			}
		}
	}
	m.publish(next)
}

// Registered tells that the controller has given this process a broker epoch. It
// is noted in every log directory. Until then, and until an image at or after
// that epoch is applied, no partition leads or follows: a broker acts on no
// metadata older than its own registration.
func (m *ReplicaManager) Registered(epoch model.BrokerEpoch) {
	m.deps.Dirs.Registered(epoch)
	m.registeredAt.Store(int64(epoch))
}

// rand returns a source of chance of its own for one log.
func (m *ReplicaManager) rand() *rand.Rand {
	m.drawsMu.Lock()
	defer m.drawsMu.Unlock()
	return rand.New(rand.NewPCG(m.draws.Uint64(), m.draws.Uint64()))
}

// coreConfig is what the pure core needs of a topic's and the broker's settings.
func (m *ReplicaManager) coreConfig(t *config.Topic) partition.Config {
	b := m.deps.Broker
	return partition.Config{
		MinISR: t.MinInsyncReplicas, SegmentBytes: t.SegmentBytes,
		FlushMessages: t.FlushMessages, FlushAfter: nanos(t.FlushMs),
		LogAppendTime: t.MessageTimestampType == config.LogAppendTime, DeleteAllowed: t.CleanupPolicy.Delete,
		Compacted:        t.CleanupPolicy.Compact,
		ReplicaLagMax:    model.Instant(b.Replication.LagMax),
		ProducerExpiryMs: b.Producers.IDExpiration.Milliseconds(),
		FenceAfter:       model.Instant(b.Quorum.BrokerSessionTimeout),
	}
}

// nanos turns milliseconds into an Instant's unit; what doesn't fit is Never.
func nanos(ms int64) model.Instant {
	const most = int64(model.Never) / int64(time.Millisecond)
	if ms >= most {
		return model.Never
	}
	return model.Instant(ms * int64(time.Millisecond))
}

// logConfig is what the log needs of a topic's settings.
func logConfig(t *config.Topic) log.Config {
	c := log.Config{
		SegmentBytes: t.SegmentBytes, IndexBytes: t.SegmentIndexBytes, IndexIntervalBytes: t.IndexIntervalBytes,
		SegmentMs: t.SegmentMs, SegmentJitterMs: t.SegmentJitterMs, PreallocateBytes: preallocateAhead,
	}
	if t.CleanupPolicy.Compact {
		// A record may not stay in the segment that is being written for longer
		// than it may stay uncleaned. Source: KIP-354.
		c.SegmentMs = min(c.SegmentMs, t.MaxCompactionLagMs)
	}
	if t.Preallocate {
		c.PreallocateBytes = int64(t.SegmentBytes)
	}
	return c
}

// preallocateAhead is how much disk space a segment reserves ahead of its end:
// it makes an append cheaper and doesn't change the file's size.
const preallocateAhead = 8 << 20

// stampsItself says whether the topic's records carry the broker's clock.
func stampsItself(t *config.Topic) bool { return t.MessageTimestampType == config.LogAppendTime }
