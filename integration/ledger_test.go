package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// tp is a partition.
type tp struct {
	topic string
	n     int32
}

// stamp is the beginning of every record's value: who sent it, and its number
// among the records of that producer for that partition.
type stamp struct {
	producer int32
	seq      int64
}

const stampSize = 12

func (s stamp) value(size int) []byte {
	v := make([]byte, max(size, stampSize))
	binary.BigEndian.PutUint32(v, uint32(s.producer))
	binary.BigEndian.PutUint64(v[4:], uint64(s.seq))
	x := uint64(s.seq)*0x9E3779B97F4A7C15 + uint64(s.producer) + 1
	for i := stampSize; i+8 <= len(v); i += 8 { // bytes that nothing compresses or confuses
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(v[i:], x)
	}
	return v
}

func stampOf(value []byte) (stamp, error) {
	if len(value) < stampSize {
		return stamp{}, fmt.Errorf("a value of %d bytes", len(value))
	}
	s := stamp{int32(binary.BigEndian.Uint32(value)), int64(binary.BigEndian.Uint64(value[4:]))}
	if string(s.value(len(value))) != string(value) {
		return s, fmt.Errorf("the bytes of %+v are not what was sent", s)
	}
	return s, nil
}

// ledger is what producers were told: which record got which offset.
type ledger struct {
	mu    sync.Mutex
	acked map[tp]map[int64]stamp
	sent  atomic.Int64
	told  atomic.Int64
	errs  []error
}

func newLedger() *ledger { return &ledger{acked: map[tp]map[int64]stamp{}} }

func (l *ledger) note(r *kgo.Record, s stamp, err error) {
	l.told.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("%s-%d %+v: %w", r.Topic, r.Partition, s, err))
		return
	}
	p := tp{r.Topic, r.Partition}
	if l.acked[p] == nil {
		l.acked[p] = map[int64]stamp{}
	}
	if other, twice := l.acked[p][r.Offset]; twice {
		l.errs = append(l.errs, fmt.Errorf("%v offset %d was acknowledged for %+v and for %+v", p, r.Offset, other, s))
	}
	l.acked[p][r.Offset] = s
}

// load is idempotent producers at work until they are stopped.
type load struct {
	t      *testing.T
	ledger *ledger
	stop   chan struct{}
	wg     sync.WaitGroup
	cls    []*kgo.Client
}

// loadSpec says what the producers of a load do.
type loadSpec struct {
	producers  int
	partitions []tp
	size       int           // of a value
	every      time.Duration // between bursts
	burst      int           // records for each partition
	limit      int64         // records of each producer; 0 is no limit
	opts       []kgo.Opt
}

func (n *node) load(spec loadSpec) *load {
	n.t.Helper()
	l := &load{t: n.t, ledger: newLedger(), stop: make(chan struct{})}
	for i := range spec.producers {
		cl := n.client(append([]kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression())}, spec.opts...)...)
		l.cls = append(l.cls, cl)
		// A client that can't get a producer id gives its records up.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, _, err := cl.ProducerID(ctx)
		cancel()
		if err != nil {
			n.t.Fatal(err)
		}
		l.wg.Add(1)
		go l.produce(cl, int32(i), spec)
	}
	return l
}

func (l *load) produce(cl *kgo.Client, producer int32, spec loadSpec) {
	defer l.wg.Done()
	tick := time.NewTicker(spec.every)
	defer tick.Stop()
	var total int64
	for seq := int64(0); spec.limit == 0 || total < spec.limit; {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		for range spec.burst {
			for _, p := range spec.partitions {
				s := stamp{producer, seq}
				l.ledger.sent.Add(1)
				cl.Produce(context.Background(), &kgo.Record{Topic: p.topic, Partition: p.n, Value: s.value(spec.size)},
					func(r *kgo.Record, err error) { l.ledger.note(r, s, err) })
				total++
			}
			seq++
		}
	}
}

// finish stops the producers and waits until all that they sent is answered.
func (l *load) finish() {
	l.t.Helper()
	close(l.stop)
	l.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for _, cl := range l.cls {
		if err := cl.Flush(ctx); err != nil {
			l.t.Fatalf("%d of %d records were answered: %v", l.ledger.told.Load(), l.ledger.sent.Load(), err)
		}
		cl.Close()
	}
	for i, err := range l.ledger.errs {
		if i < 10 {
			l.t.Error(err)
		}
	}
	if l.t.Failed() {
		l.t.FailNow()
	}
}

// readAll returns every record of the partitions, in order, up to their ends.
func (n *node) readAll(parts []tp) map[tp][]*kgo.Record {
	n.t.Helper()
	ends := map[tp]int64{}
	from := map[string]map[int32]kgo.Offset{}
	ask := n.client()
	defer ask.Close()
	for _, p := range parts {
		ends[p] = n.end(ask, p)
		if from[p.topic] == nil {
			from[p.topic] = map[int32]kgo.Offset{}
		}
		from[p.topic][p.n] = kgo.NewOffset().AtStart()
	}
	cl := n.client(kgo.ConsumePartitions(from), kgo.FetchMaxBytes(32<<20), kgo.FetchMaxPartitionBytes(16<<20))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	got := map[tp][]*kgo.Record{}
	for left := true; left; {
		left = false
		for p, end := range ends {
			rs := got[p]
			left = left || end > 0 && (len(rs) == 0 || rs[len(rs)-1].Offset < end-1)
		}
		if !left {
			break
		}
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			n.t.Fatalf("read: %v", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			p := tp{r.Topic, r.Partition}
			got[p] = append(got[p], r)
		})
	}
	return got
}

// check reads everything back: each acknowledged record at its offset, each
// producer's records once and in the order sent, no offset left out.
func (n *node) check(l *ledger, parts []tp) (records int) {
	n.t.Helper()
	got := n.readAll(parts)
	for _, p := range parts {
		next := map[int32]int64{}
		for i, r := range got[p] {
			s, err := stampOf(r.Value)
			if err != nil {
				n.t.Fatalf("%v offset %d: %v", p, r.Offset, err)
			}
			if r.Offset != int64(i) {
				n.t.Fatalf("%v: offset %d is the record number %d", p, r.Offset, i)
			}
			if s.seq != next[s.producer] {
				n.t.Fatalf("%v offset %d: record %d of producer %d, want %d: lost, twice or out of order", p, r.Offset, s.seq, s.producer, next[s.producer])
			}
			next[s.producer]++
			if a, ok := l.acked[p][r.Offset]; ok && a != s {
				n.t.Fatalf("%v offset %d is %+v and was acknowledged for %+v", p, r.Offset, s, a)
			}
		}
		for offset, s := range l.acked[p] {
			if offset >= int64(len(got[p])) {
				n.t.Fatalf("%v: %+v was acknowledged at %d, the log ends at %d", p, s, offset, len(got[p]))
			}
		}
		records += len(got[p])
	}
	return records
}
