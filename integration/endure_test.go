package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// endurance is a broker alone, or three, with topics of each policy, under
// producers of each kind and size and with groups that commit; and what clients
// were told. Whoever uses it does harm, and has it checked in between.
type endurance struct {
	c      *cluster
	rng    *rand.Rand // of whoever does harm
	seed   uint64
	trails []*trail
	full   bool // the disk has no room
	goes   bool // retention and compaction must have taken something in the end

	stop     chan struct{}
	once     sync.Once
	sending  sync.WaitGroup
	reading  sync.WaitGroup
	cancel   context.CancelFunc // of the readers
	cls      []*kgo.Client
	asker    *kgo.Client
	sent     atomic.Int64
	answered atomic.Int64
	acked    atomic.Int64
	bytes    atomic.Int64
	givenUp  atomic.Int64
	read     atomic.Int64

	mu      sync.Mutex
	offsets map[groupPartition]*committedOffset
	commits int
	found   found // what belongs to no partition
}

// committedOffset is what a group's members were told of one offset.
type committedOffset struct{ acked, tried int64 }

// enduranceSpec says what is different from the usual.
type enduranceSpec struct {
	three bool // brokers; else one
	set   []string
	base  string        // where the data directory goes; else a directory of the test
	keep  time.Duration // of the topic whose records expire; 0 is five seconds
	most  int           // bytes of the largest record; 0 is a megabyte
	pace  int           // how much slower than usual producers are; 0 is 1
}

// enduring starts the brokers and the load on them.
func enduring(t *testing.T, spec enduranceSpec) *endurance {
	t.Helper()
	e := &endurance{seed: uint64(time.Now().UnixNano()), stop: make(chan struct{}), offsets: map[groupPartition]*committedOffset{}}
	if s := os.Getenv("TIDEMARK_ENDURE_SEED"); s != "" {
		var err error
		if e.seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", e.seed)
	e.rng = rand.New(rand.NewPCG(e.seed, 5))
	if spec.keep == 0 {
		spec.keep = 5 * time.Second
	}
	cs := clusterSpec{dirs: 1, base: spec.base, set: slices.Concat(spec.set, []string{
		"log.roll.ms=3000", "log.retention.check.interval.ms=500", "log.cleaner.backoff.ms=500", "log.cleaner.min.cleanable.ratio=0.1",
		"log.segment.delete.delay.ms=1000", "offsets.topic.num.partitions=2", "group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=1000", "group.consumer.min.session.timeout.ms=1000", "group.consumer.session.timeout.ms=3000",
		"group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=300"})}
	replicas := []int32{1, 2, 3}
	if spec.three {
		cs.set = append(cs.set, shortSessions()...)
	} else {
		replicas = replicas[:1]
		cs.roles = []string{both}
		cs.set = append(cs.set, "default.replication.factor=1", "min.insync.replicas=1", "offsets.topic.replication.factor=1")
	}
	e.c = startCluster(t, cs)
	topic := func(policy policy, name string, partitions int32, configs ...string) {
		for _, p := range e.c.create(name, partitions, replicas, configs...) {
			e.trails = append(e.trails, newTrail(p, policy, spec.keep))
		}
	}
	topic(keeps, "keeps", 2, "segment.bytes=1048576", "retention.ms=-1")
	topic(expires, "expires", 1, fmt.Sprintf("segment.ms=%d", spec.keep.Milliseconds()/4), fmt.Sprintf("retention.ms=%d", spec.keep.Milliseconds()), "compression.type=lz4")
	topic(trims, "trims", 1, "segment.bytes=1048576", "retention.ms=-1")
	topic(compacts, "compacts", 2, "cleanup.policy=compact", "segment.ms=2000", "min.cleanable.dirty.ratio=0.05", "delete.retention.ms=1000")
	e.asker = e.c.client(kgo.RetryTimeout(10*time.Second), kgo.RequestTimeoutOverhead(5*time.Second))
	t.Cleanup(func() {
		e.quiet()
		e.cancel()
		for _, cl := range e.cls {
			cl.Close()
		}
		e.asker.Close()
	})
	e.load(spec)
	return e
}

// producerKind is what one producer of the load does.
type producerKind struct {
	codec      kgo.CompressionCodec
	plain      bool // not idempotent
	acks       kgo.Acks
	low, high  int // bytes of values
	every      time.Duration
	compacting bool // writes to the compacted topics
}

func (e *endurance) load(spec enduranceSpec) {
	t := e.c.t
	t.Helper()
	all, one := kgo.AllISRAcks(), kgo.AllISRAcks()
	if !spec.three {
		one = kgo.LeaderAck() // on a single broker it says as much
	}
	most := spec.most
	if most == 0 {
		most = 1_040_000
	}
	ms := func(n int) time.Duration { return time.Duration(n*max(spec.pace, 1)) * time.Millisecond }
	hands := []producerKind{
		{codec: kgo.NoCompression(), acks: all, low: 100, high: 1000, every: ms(2)},
		{codec: kgo.GzipCompression(), acks: all, low: 100, high: min(most, 20_000), every: ms(20)},
		{codec: kgo.SnappyCompression(), acks: all, low: min(most, 200_000), high: most, every: ms(150)},
		{codec: kgo.Lz4Compression(), plain: true, acks: one, low: 100, high: min(most, 20_000), every: ms(40)},
		{codec: kgo.ZstdCompression(), plain: true, acks: all, low: 100, high: min(most, 200_000), every: ms(100)},
		{codec: kgo.ZstdCompression(), acks: all, low: 100, high: min(most, 10_000), every: ms(15), compacting: true},
		{codec: kgo.NoCompression(), acks: all, low: 0, high: 300, every: ms(8), compacting: true},
	}
	for i, h := range hands {
		opts := []kgo.Opt{kgo.RequiredAcks(h.acks), kgo.ProducerLinger(2 * time.Millisecond), kgo.ProducerBatchCompression(h.codec),
			kgo.ProducerBatchMaxBytes(1_048_500), kgo.MaxBufferedRecords(300), kgo.MaxBufferedBytes(8 << 20),
			kgo.ProduceRequestTimeout(5 * time.Second), kgo.RequestTimeoutOverhead(3 * time.Second)}
		if h.plain {
			opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
		} else if h.acks != all {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		cl := e.c.client(opts...)
		e.cls = append(e.cls, cl)
		if !h.plain {
			// A client that can't get a producer id gives its records up.
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			_, _, err := cl.ProducerID(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
		e.sending.Go(func() { e.produce(cl, int32(i), h) })
	}
	var ctx context.Context
	ctx, e.cancel = context.WithCancel(context.Background())
	for _, group := range []string{"consumer", "eager"} {
		for i := range 2 {
			e.reading.Go(func() { e.consume(ctx, group, fmt.Sprintf("%s.%d", group, i)) })
		}
	}
}

func (e *endurance) produce(cl *kgo.Client, producer int32, h producerKind) {
	rng := rand.New(rand.NewPCG(e.seed, uint64(producer)))
	var mine []*trail
	for _, t := range e.trails {
		if (t.policy == compacts) == h.compacting {
			mine = append(mine, t)
		}
	}
	tick := time.NewTicker(h.every)
	defer tick.Stop()
	for seq := int64(0); ; seq++ {
		select {
		case <-e.stop:
			return
		case <-tick.C:
		}
		t := mine[rng.IntN(len(mine))]
		d := &dispatch{s: stamp{producer, seq}, idempotent: !h.plain, at: time.Now()}
		size := h.low + rng.IntN(h.high-h.low+1)
		if h.compacting {
			d.key = fmt.Sprintf("%d.%d", producer, rng.IntN(150))
			if d.gone = rng.IntN(20) == 0; d.gone {
				size = -1
			}
		}
		r := motley(t.p, d.s, d.key, size)
		r.Timestamp = d.at
		t.sending(d)
		e.sent.Add(1)
		e.bytes.Add(int64(size))
		cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			e.answered.Add(1)
			if err == nil {
				t.told(d, r.Offset)
				e.acked.Add(1)
				return
			}
			e.givenUp.Add(1)
			var first *kgo.ErrFirstReadEOF
			if !errors.As(err, &first) { // see workload.told
				e.bad("refused", "%v %v: %v", t.p, d.s, err)
			}
		})
	}
}

// consume is one member of a group, that commits what it was delivered.
func (e *endurance) consume(ctx context.Context, group, name string) {
	by := map[tp]*trail{}
	for _, t := range e.trails {
		by[t.p] = t
	}
	var mu sync.Mutex
	next := map[tp]int64{}
	forget := func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
		mu.Lock()
		defer mu.Unlock()
		for topic, ns := range parts {
			for _, n := range ns {
				delete(next, tp{topic, n})
			}
		}
	}
	cl := e.c.client(append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics("keeps", "expires"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID(name),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(3 * time.Second), kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.FetchMaxWait(200 * time.Millisecond), kgo.RequestTimeoutOverhead(3 * time.Second), kgo.RebalanceTimeout(10 * time.Second),
		kgo.OnPartitionsAssigned(forget), kgo.OnPartitionsRevoked(forget), kgo.OnPartitionsLost(forget),
	}, protocols()[group]...)...)
	defer cl.Close()
	for ctx.Err() == nil {
		short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
		fetches := cl.PollRecords(short, 500)
		stop()
		at := map[tp]int64{}
		fetches.EachRecord(func(r *kgo.Record) {
			e.read.Add(1)
			p := tp{r.Topic, r.Partition}
			by[p].shown(name, r)
			mu.Lock()
			if want, ok := next[p]; ok && (r.Offset < want || r.Offset > want && by[p].policy == keeps) {
				e.bad(skipped, "%v: %s was handed offset %d where %d was due", p, name, r.Offset, want)
			}
			next[p], at[p] = r.Offset+1, r.Offset+1
			mu.Unlock()
		})
		if len(at) > 0 {
			e.commit(ctx, cl, group, at)
		}
		cl.AllowRebalance()
	}
}

func (e *endurance) bad(kind, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.found.add(kind, format, args...)
}

func (e *endurance) commit(ctx context.Context, cl *kgo.Client, group string, at map[tp]int64) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	e.mu.Lock()
	for p, o := range at {
		if offsets[p.topic] == nil {
			offsets[p.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.topic][p.n] = kgo.EpochOffset{Epoch: -1, Offset: o}
		k := groupPartition{group, p}
		if e.offsets[k] == nil {
			e.offsets[k] = &committedOffset{acked: none, tried: none}
		}
		e.offsets[k].tried = max(e.offsets[k].tried, o)
	}
	e.mu.Unlock()
	cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, t := range resp.Topics {
			for _, x := range t.Partitions {
				p := tp{t.Topic, x.Partition}
				if o, ok := at[p]; ok && x.ErrorCode == 0 {
					k := e.offsets[groupPartition{group, p}]
					k.acked = max(k.acked, o)
					e.commits++
				}
			}
		}
	})
}

// quiet stops the producers; what they sent is still under way.
func (e *endurance) quiet() { e.once.Do(func() { close(e.stop) }) }

// flows waits until each partition has acknowledged something new.
func (e *endurance) flows() {
	e.c.t.Helper()
	for _, t := range e.trails {
		was := t.pledged().top
		eventually(e.c.t, 60*time.Second, fmt.Sprintf("records are acknowledged on %v", t.p), func() bool { return t.pledged().top > was })
	}
}

// check reads what is new, or with whole everything, and holds it against what
// was acknowledged up to now.
func (e *endurance) check(whole bool) {
	e.c.t.Helper()
	e.checkOffsets()
	for _, t := range e.trails {
		e.checkTrail(t, whole, false)
	}
	e.verdict()
}

// verdict ends the test if anything was found.
func (e *endurance) verdict() {
	e.c.t.Helper()
	if bad := e.anomalies(); len(bad) > 0 {
		e.c.t.Fatalf("seed %d: anomalies:\n%s", e.seed, counted(bad))
	}
}

func (e *endurance) anomalies() (bad []anomaly) {
	e.mu.Lock()
	bad = append(bad, e.found.all...)
	e.mu.Unlock()
	for _, t := range e.trails {
		t.mu.Lock()
		bad = append(bad, t.found.all...)
		t.mu.Unlock()
	}
	return bad
}

// ask asks for an offset until somebody says it.
func (e *endurance) ask(p tp, at int64) (offset int64) {
	e.c.t.Helper()
	var last error
	eventuallyOr(e.c.t, 60*time.Second, func() string { return fmt.Sprintf("an offset of %v: %v", p, last) }, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		offset, last = listOffset(ctx, e.asker, p, at)
		return last == nil
	})
	return offset
}

// eventuallyOr is eventually with words that are found at the end.
func eventuallyOr(t *testing.T, patience time.Duration, what func() string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what())
		}
		pause(10 * time.Millisecond)
	}
}

func (e *endurance) checkTrail(t *trail, whole, quiet bool) {
	e.c.t.Helper()
	was := t.pledged()
	start, end := e.ask(t.p, -2), e.ask(t.p, -1)
	t.bounds(was, start, end, time.Now())
	x := t.tail
	if whole || t.policy == compacts {
		x = t.newPass(start)
	}
	if x.next < start {
		x.next = start // what went meanwhile
	}
	if err := e.readOn(x, end); err != nil {
		e.c.t.Fatalf("%v: %v", t.p, err)
	}
	t.settle(x, was, e.ask(t.p, -2), quiet)
	if x != t.tail && x.next >= t.tail.next {
		t.tail = x
	}
}

// readOn goes on with a pass up to an end.
func (e *endurance) readOn(x *pass, end int64) error {
	if x.next >= end {
		return nil
	}
	p := x.t.p
	cl := e.c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: {p.n: kgo.NewOffset().At(x.next)}}),
		kgo.FetchMaxBytes(32<<20), kgo.FetchMaxPartitionBytes(8<<20), kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	for silent := 0; x.next < end; silent++ {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		fetches := cl.PollFetches(ctx)
		cancel()
		fetches.EachRecord(func(r *kgo.Record) {
			x.take(r)
			silent = -1
		})
		if silent >= 2 && e.ask(p, -2) >= end {
			x.next = end // retention took it all
		}
		if silent > 120 {
			return fmt.Errorf("read up to %d of %d: %v", x.next, end, fetches.Err())
		}
	}
	return nil
}

// checkOffsets holds the groups' committed offsets against what was acknowledged.
func (e *endurance) checkOffsets() {
	t := e.c.t
	t.Helper()
	for _, group := range []string{"consumer", "eager"} {
		want := map[tp]int64{}
		e.mu.Lock()
		for k, o := range e.offsets {
			if k.group == group && o.acked != none {
				want[k.p] = o.acked
			}
		}
		e.mu.Unlock()
		if len(want) == 0 {
			continue
		}
		var got kadm.OffsetResponses
		var err error
		eventuallyOr(t, 60*time.Second, func() string { return fmt.Sprintf("the offsets of %s: %v", group, err) }, func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			got, err = kadm.NewClient(e.asker).FetchOffsets(ctx, group)
			if err == nil {
				err = got.Error()
			}
			return err == nil
		})
		for p, o := range want {
			at := int64(none)
			if x, ok := got.Lookup(p.topic, p.n); ok {
				at = x.At
			}
			e.mu.Lock()
			tried := e.offsets[groupPartition{group, p}].tried
			if at < o || at > tried {
				e.found.add(lost, "group %s, %v: the committed offset is %d, %d was acknowledged and %d tried", group, p, at, o, tried)
			}
			e.mu.Unlock()
		}
	}
}

// finish stops the load, reads everything, has the directories verified offline,
// and reads everything again after a start.
func (e *endurance) finish() {
	t := e.c.t
	t.Helper()
	e.quiet()
	e.sending.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	for _, cl := range e.cls {
		if err := cl.Flush(ctx); err != nil {
			t.Fatalf("%d of %d records were answered: %v", e.answered.Load(), e.sent.Load(), err)
		}
	}
	e.cancel()
	e.reading.Wait()
	e.endCompacted()
	for _, x := range e.trails {
		if x.policy == expires && e.goes {
			eventually(t, 30*time.Second, "retention has begun", func() bool { return e.ask(x.p, -2) > 0 })
		}
	}
	e.checkAll()
	var same []tp
	for _, x := range e.trails {
		if len(e.c.members) > 1 && x.policy == keeps {
			same = append(same, x.p)
			e.c.awaitISR(x.p, len(e.c.members))
		}
	}
	e.c.compare(same) // stops all
	for _, m := range e.c.members {
		e.verifyOffline(m)
	}
	e.c.start()
	e.checkAll()
	t.Log(e.summary())
	holes := int64(0)
	for _, x := range e.trails {
		if x.policy == compacts {
			holes += x.tail.holes
		}
	}
	if e.goes && holes == 0 && long() { // the short form may end before a cleaning does
		t.Error("nothing was compacted")
	}
}

// endCompacted has each compacted partition end with a record, so that a reading of
// it has an end.
func (e *endurance) endCompacted() {
	e.c.t.Helper()
	for i, t := range e.trails {
		if t.policy != compacts {
			continue
		}
		d := &dispatch{s: stamp{100, int64(i)}, key: "the end", at: time.Now(), idempotent: true}
		t.sending(d)
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		r, err := e.cls[0].ProduceSync(ctx, motley(t.p, d.s, d.key, 10)).First()
		cancel()
		if err != nil {
			e.c.t.Fatal(err)
		}
		t.told(d, r.Offset)
	}
}

func (e *endurance) checkAll() {
	e.c.t.Helper()
	e.checkOffsets()
	for _, t := range e.trails {
		e.checkTrail(t, true, true)
	}
	e.verdict()
}

func (e *endurance) summary() string {
	var b strings.Builder
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(&b, "seed %d: %d records (%d MB) sent, %d acknowledged, %d given up, %d delivered to members, %d commits", e.seed,
		e.sent.Load(), e.bytes.Load()>>20, e.acked.Load(), e.givenUp.Load(), e.read.Load(), e.commits)
	for _, t := range e.trails {
		t.mu.Lock()
		fmt.Fprintf(&b, "\n%v: up to %d, begins at %d", t.p, t.top+1, t.start)
		if t.policy == compacts {
			fmt.Fprintf(&b, ", %d compacted away", t.tail.holes)
		}
		if t.twice > 0 {
			fmt.Fprintf(&b, ", %d of plain producers stored again", t.twice)
		}
		t.mu.Unlock()
	}
	return b.String()
}
