package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// workload is producers and consumers on a cluster, and the history of what they
// did.
type workload struct {
	c     *cluster
	h     *history
	parts []tp

	stop     chan struct{}
	once     sync.Once          // closes stop
	sending  sync.WaitGroup     // the producers
	wg       sync.WaitGroup     // the consumers
	cancel   context.CancelFunc // of the consumers
	cls      []*kgo.Client
	acked    atomic.Int64
	answered atomic.Int64
	sent     atomic.Int64
	failed   atomic.Int64

	mu       sync.Mutex
	lastAck  map[tp]time.Time
	longest  map[tp]time.Duration // without an acknowledgement
	firstErr error
}

// workSpec says what a workload does. Producers from 10 on are not idempotent.
type workSpec struct {
	idempotent, plain int // producers
	consumers         int
	size              int           // of a value; 0 is 100
	every             time.Duration // between bursts; 0 is 2 ms
	burst             int           // records for each partition; 0 is 1
}

// work starts a workload.
func (c *cluster) work(parts []tp, spec workSpec) *workload {
	c.t.Helper()
	if spec.size == 0 {
		spec.size = 100
	}
	if spec.every == 0 {
		spec.every = 2 * time.Millisecond
	}
	if spec.burst == 0 {
		spec.burst = 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &workload{c: c, h: newHistory(), parts: parts, stop: make(chan struct{}), cancel: cancel, lastAck: map[tp]time.Time{}, longest: map[tp]time.Duration{}}
	for i := range spec.idempotent + spec.plain {
		opts := []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.MaxBufferedRecords(2000), kgo.ProduceRequestTimeout(3 * time.Second), kgo.RequestTimeoutOverhead(2 * time.Second)}
		producer := int32(i)
		if i >= spec.idempotent {
			producer = int32(10 + i)
			opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
		}
		cl := c.client(opts...)
		w.cls = append(w.cls, cl)
		w.sending.Go(func() { w.produce(cl, producer, spec) })
	}
	for i := range spec.consumers {
		w.wg.Go(func() { w.consume(ctx, fmt.Sprintf("c%d", i)) })
	}
	return w
}

func (w *workload) produce(cl *kgo.Client, producer int32, spec workSpec) {
	tick := time.NewTicker(spec.every)
	defer tick.Stop()
	for seq := int64(0); ; {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		for range spec.burst {
			for _, p := range w.parts {
				s := stamp{producer, seq}
				x := w.h.begin(p, s, producer < 10)
				w.sent.Add(1)
				cl.Produce(context.Background(), &kgo.Record{Topic: p.topic, Partition: p.n, Value: s.value(spec.size)},
					func(r *kgo.Record, err error) { w.told(x, r, err) })
			}
			seq++
		}
	}
}

// told notes the answer to a record.
func (w *workload) told(x *send, r *kgo.Record, err error) {
	w.answered.Add(1)
	if err == nil {
		w.h.end(x, acked, r.Offset)
		w.acked.Add(1)
		now := time.Now()
		w.mu.Lock()
		if last, ok := w.lastAck[x.p]; ok {
			w.longest[x.p] = max(w.longest[x.p], now.Sub(last))
		}
		w.lastAck[x.p] = now
		w.mu.Unlock()
		return
	}
	// A connection that is closed on its first request makes this client give a
	// record up: it takes it for a sign of TLS or SASL. A broker that stops or
	// starts may well do so.
	var first *kgo.ErrFirstReadEOF
	if !errors.As(err, &first) {
		w.failed.Add(1)
	}
	w.mu.Lock()
	if w.firstErr == nil {
		w.firstErr = fmt.Errorf("%v %v: %w", x.p, x.s, err)
	}
	w.mu.Unlock()
	// What the producer gives up may have been stored by an earlier try, so that
	// no error proves anything but the first and only one of a plain producer.
	w.h.end(x, unknown, -1)
}

// consume reads all partitions from their start, for as long as the workload
// lasts, over whatever happens.
func (w *workload) consume(ctx context.Context, name string) {
	from := map[string]map[int32]kgo.Offset{}
	for _, p := range w.parts {
		if from[p.topic] == nil {
			from[p.topic] = map[int32]kgo.Offset{}
		}
		from[p.topic][p.n] = kgo.NewOffset().AtStart()
	}
	cl := w.c.client(kgo.ConsumePartitions(from), kgo.FetchMaxWait(200*time.Millisecond), kgo.RequestTimeoutOverhead(2*time.Second),
		// An offset that is out of range is a fault: stay there and say so.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	defer cl.Close()
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachError(func(topic string, n int32, err error) {
			if errors.Is(err, kerr.OffsetOutOfRange) || isDataLoss(err) {
				w.h.polled(name, poll{p: tp{topic, n}, offset: -1, broken: err.Error()})
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			x := poll{p: tp{r.Topic, r.Partition}, offset: r.Offset}
			var err error
			if x.s, err = stampOf(r.Value); err != nil {
				x.broken = err.Error()
			}
			w.h.polled(name, x)
		})
	}
}

func isDataLoss(err error) bool {
	var loss *kgo.ErrDataLoss
	return errors.As(err, &loss)
}

// flows waits until some more records were acknowledged.
func (w *workload) flows(n int64) {
	w.c.t.Helper()
	want := w.acked.Load() + n
	eventually(w.c.t, 90*time.Second, fmt.Sprintf("%d more records are acknowledged", n), func() bool { return w.acked.Load() >= want })
}

// flowsEverywhere waits until each partition has acknowledged one that was sent
// from now on.
func (w *workload) flowsEverywhere() {
	w.c.t.Helper()
	since := time.Now()
	eventually(w.c.t, 90*time.Second, "records are acknowledged on each partition", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range w.parts {
			if !w.lastAck[p].After(since) {
				return false
			}
		}
		return true
	})
}

// longestGap is the longest time in which a partition acknowledged nothing.
func (w *workload) longestGap(p tp) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.longest[p]
}

// forgetGaps forgets the longest gaps so far.
func (w *workload) forgetGaps() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.longest)
}

// quiet stops the producers; what they sent is still under way.
func (w *workload) quiet() {
	w.once.Do(func() { close(w.stop) })
	w.sending.Wait()
}

// finish stops the producers, waits for what they sent to be answered, lets the
// consumers catch up, and reads everything once more from the start.
func (w *workload) finish() {
	t := w.c.t
	t.Helper()
	w.quiet()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	for _, cl := range w.cls {
		if err := cl.Flush(ctx); err != nil {
			t.Errorf("%d of %d records were answered: %v", w.answered.Load(), w.sent.Load(), err)
		}
		cl.Close()
	}
	for _, p := range w.parts {
		w.h.finals[p] = w.c.readToEnd(p)
	}
	w.cancel()
	w.wg.Wait()
}

// check is finish and the checker's verdict.
func (w *workload) check() {
	t := w.c.t
	t.Helper()
	w.finish()
	bad, duplicates := w.h.check()
	if len(bad) > 0 {
		t.Errorf("anomalies:\n%s", counted(bad))
		w.explainLost(bad)
	}
	polls := 0
	for _, p := range w.h.polls {
		polls += len(p)
	}
	t.Logf("%d sent, %d acknowledged, %d given up, %d duplicates of plain producers, %d read along the way", w.sent.Load(), w.acked.Load(), w.failed.Load(), duplicates, polls)
	if w.failed.Load() > 0 {
		t.Logf("the first given up: %v", w.firstErr)
	}
}

// explainLost looks for lost records in the files of all nodes, to tell lost
// from not delivered.
func (w *workload) explainLost(bad []anomaly) {
	any := false
	for _, a := range bad {
		any = any || a.kind == lost || a.kind == vanished
	}
	if !any {
		return
	}
	for _, p := range w.parts {
		for _, m := range w.c.members {
			dir, err := m.replicaDir(p)
			if err != nil {
				continue
			}
			r, err := readReplica(fmt.Sprintf("node %d", m.id), dir)
			if err != nil {
				w.c.t.Logf("%v on node %d: %v", p, m.id, err)
				continue
			}
			w.c.t.Logf("%v on node %d: log start %d, end %d, high watermark at the last checkpoint %d, epochs %v", p, m.id, r.logStart, r.end(), r.hw, r.epochs)
		}
	}
}

// endOffset asks for a partition's end until somebody says it.
func (c *cluster) endOffset(cl *kgo.Client, p tp) (end int64) {
	c.t.Helper()
	var last error
	ok := false
	for range 2000 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		end, last = listEnd(ctx, cl, p)
		cancel()
		if ok = last == nil; ok {
			break
		}
		pause(20 * time.Millisecond)
	}
	if !ok {
		c.t.Fatalf("the end of %v: %v", p, last)
	}
	return end
}

// readToEnd reads a partition from its start to the end it has now.
func (c *cluster) readToEnd(p tp) (all []poll) {
	c.t.Helper()
	cl := c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: {p.n: kgo.NewOffset().AtStart()}}),
		kgo.FetchMaxBytes(32<<20), kgo.FetchMaxPartitionBytes(16<<20), kgo.FetchMaxWait(100*time.Millisecond))
	defer cl.Close()
	end := c.endOffset(cl, p)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	next := int64(0)
	for next < end {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Errorf("%v: read up to %d of %d", p, next, end)
			return all
		}
		fetches.EachRecord(func(r *kgo.Record) {
			x := poll{p: p, offset: r.Offset}
			var err error
			if x.s, err = stampOf(r.Value); err != nil {
				x.broken = err.Error()
			}
			all = append(all, x)
			next = r.Offset + 1
		})
	}
	return all
}

// TestWorkload: the workload and its checks on one node, that does nothing
// unusual.
func TestWorkload(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.start()
	n.topic("w", 2)
	c := &cluster{t: t, members: []*member{{node: n, id: 1, roles: both}}}
	defer c.end()
	w := c.work([]tp{{"w", 0}, {"w", 1}}, workSpec{idempotent: 2, plain: 1, consumers: 2})
	w.flows(500)
	w.flowsEverywhere()
	w.check()
	if w.failed.Load() > 0 || w.acked.Load() != w.sent.Load() {
		t.Errorf("%d of %d records acknowledged", w.acked.Load(), w.sent.Load())
	}
}
