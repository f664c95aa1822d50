package host

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/lifecycle"
	"github.com/tidemark/tidemark/internal/loop/realtime"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs/osfs"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// live is one of two brokers on real disks and goroutines, with partition t-0.
type live struct {
	t     *testing.T
	id    model.BrokerID
	group *lifecycle.Group
	m     *ReplicaManager
	img   *metadata.Image
	peer  *live
}

func newLive(t *testing.T, id model.BrokerID, overrides map[string]string) *live {
	l := &live{t: t, id: id, group: &lifecycle.Group{}, img: metadata.Empty()}
	rt := realtime.New(l.group)
	cfg := config.Defaults()
	cfg.Replication.FetchWaitMax, cfg.Replication.FetchBackoff = 20*time.Millisecond, 50*time.Millisecond
	fs := osfs.New()
	dirs, err := OpenDirs(DirOptions{FS: fs, Paths: []string{t.TempDir()}, NodeID: id, Rand: rand.New(rand.NewPCG(1, uint64(id))), Logger: zap.NewNop(), Machine: ThisMachine()})
	if err != nil {
		t.Fatal(err)
	}
	if err := dirs.Claim(testCluster); err != nil {
		t.Fatal(err)
	}
	l.m = NewReplicaManager(Deps{
		RT: rt, FS: fs, Dirs: dirs, Self: id, Broker: cfg, Logger: zap.NewNop(),
		Rand: rand.New(rand.NewPCG(3, uint64(id))), Group: l.group, Leaders: l,
		Topic: func(*metadata.Image, string) *config.Topic {
			topic, err := cfg.Topic(nil, overrides)
			if err != nil {
				t.Error(err)
			}
			return &topic
		},
	})
	if _, err := l.m.Load(l.img); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.m.Shutdown(true); err != nil {
			t.Error(err)
		}
		dirs.Close()
		rt.Stop()
		l.group.Wait()
	})
	return l
}

func (l *live) apply(recs ...metadata.Record) {
	img, delta, err := metadata.Apply(l.img, model.OffsetAndEpoch{Offset: l.img.At().Offset + 1, Epoch: 1}, recs)
	if err != nil {
		l.t.Fatal(err)
	}
	l.img = img
	l.m.Apply(img, delta)
}

// Open implements Leaders: a link whose requests are served on goroutines.
func (l *live) Open(model.BrokerID, int) LeaderLink { return l }

func (l *live) Close() {}

func (l *live) Send(req kmsg.Request, done LinkReceiver) {
	l.group.Go("link", func() {
		req.SetVersion(18)
		resp := l.peer.serve(req.(*kmsg.FetchRequest))
		b := resp.AppendTo(nil)
		out := kmsg.NewPtrFetchResponse()
		out.Version = 18
		if err := out.ReadFrom(b); err != nil {
			l.t.Error(err)
		}
		done.LinkAnswered(LinkAnswer{Msg: out, Hold: &lockedFrame{b: b, held: 1}})
	})
}

// lockedFrame is overwritten when nobody holds it.
type lockedFrame struct {
	mu   sync.Mutex
	b    []byte
	held int
}

func (f *lockedFrame) Retain() {
	f.mu.Lock()
	f.held++
	f.mu.Unlock()
}

func (f *lockedFrame) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held--; f.held == 0 {
		clear(f.b)
	}
}

// once is a waiter of one answer.
type once struct {
	ready    chan struct{}
	verdict  partition.ReplicaResult
	state    *State
	produced ProduceResult
}

func (o *once) ReplicaFetchDone(_ int32, r partition.ReplicaResult, s *State) {
	o.verdict, o.state = r, s
	close(o.ready)
}
func (o *once) FetchReady(int32)                     { close(o.ready) }
func (o *once) ProduceDone(_ int32, r ProduceResult) { o.produced = r; close(o.ready) }

// serve answers a fetch of t-0 without a session, after a wait if need be.
func (l *live) serve(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 18
	if len(req.Topics) == 0 {
		return resp
	}
	q := req.Topics[0].Partitions[0]
	h := l.m.Get("t", 0)
	rp := kmsg.NewFetchResponseTopicPartition()
	for again := false; ; again = true {
		o := &once{ready: make(chan struct{})}
		h.ReplicaFetch(ReplicaFetchMsg{Waiter: o, ReplicaFetch: partition.ReplicaFetch{
			Replica: model.BrokerID(req.ReplicaState.ID), BrokerEpoch: model.BrokerEpoch(req.ReplicaState.Epoch),
			CurrentEpoch: model.LeaderEpoch(q.CurrentLeaderEpoch), Offset: model.Offset(q.FetchOffset),
			LastEpoch: model.LeaderEpoch(q.LastFetchedEpoch), LogStart: model.Offset(q.LogStartOffset), Reread: again,
		}})
		<-o.ready
		r, s := o.verdict, o.state
		rp.ErrorCode, rp.HighWatermark, rp.LogStartOffset = r.Code, int64(r.Mark.HighWatermark), int64(r.Mark.LogStart)
		if r.Code == 0 && r.Diverging.Epoch >= 0 {
			rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = int32(r.Diverging.Epoch), int64(r.Diverging.Offset)
		} else if r.Code == 0 {
			region, err := s.View.Read(model.Offset(q.FetchOffset), r.Mark.LogEnd, 1<<20, true)
			if err == nil {
				rp.RecordBatches = make([]byte, region.Len())
				_, err = region.ReadAt(rp.RecordBatches, 0)
				region.Release()
			}
			if err != nil {
				rp.ErrorCode = 6 // truncated meanwhile
			}
		}
		if again || r.Code != 0 || r.Diverging.Epoch >= 0 || len(rp.RecordBatches) > 0 {
			break
		}
		w := &once{ready: make(chan struct{})}
		wait := &FetchWait{Waiter: w, From: model.Offset(q.FetchOffset), Bound: partition.BoundLogEnd, Seen: s}
		h.Wait(wait)
		select {
		case <-w.ready:
		case <-time.After(time.Duration(req.MaxWaitMillis) * time.Millisecond):
			h.Cancel(wait)
		}
	}
	t := kmsg.NewFetchResponseTopic()
	t.TopicID = topicID("t")
	t.Partitions = append(t.Partitions, rp)
	resp.Topics = append(resp.Topics, t)
	return resp
}

// TestFailoversUnderLoad has leadership go to and fro between two brokers on real
// disks while producers write with acks=all and acks=1. What was acknowledged by
// all is on both at the end, in logs of the same bytes.
func TestFailoversUnderLoad(t *testing.T) {
	for _, flush := range []string{"1", "100000"} {
		t.Run("flush.messages="+flush, func(t *testing.T) {
			failovers(t, map[string]string{"flush.messages": flush, "segment.bytes": "1048576"})
		})
	}
}

func failovers(t *testing.T, overrides map[string]string) {
	a, b := newLive(t, 1, overrides), newLive(t, 2, overrides)
	a.peer, b.peer = b, a
	both := func(recs ...metadata.Record) {
		a.apply(recs...)
		b.apply(recs...)
	}
	both(&metadata.RegisterBroker{ID: 1, Epoch: model.NoBrokerEpoch})
	both(&metadata.RegisterBroker{ID: 2, Epoch: model.NoBrokerEpoch})
	for _, l := range []*live{a, b} {
		epoch := l.img.Broker(l.id).Epoch
		l.m.Registered(epoch)
		both(&metadata.BrokerChange{ID: l.id, Epoch: epoch, Fenced: metadata.Clear})
	}
	both(&metadata.TopicRecord{Name: "t", ID: topicID("t")}, &metadata.PartitionRecord{
		TopicID: topicID("t"), PartitionRegistration: metadata.PartitionRegistration{
			Replicas: []model.BrokerID{1, 2}, ISR: []model.BrokerID{1, 2}, Leader: 1,
		},
	})
	var mu sync.Mutex
	var acked []string
	stop := make(chan struct{})
	var producing sync.WaitGroup
	for p := range 4 {
		producing.Add(1)
		go func() {
			defer producing.Done()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				value := fmt.Sprintf("<%d-%d>", p, i)
				acks := int16(-1)
				if p == 3 {
					acks = 1 // what a failover may cut off
				}
				if sendLive(a, b, acks, value) && acks < 0 {
					mu.Lock()
					acked = append(acked, value)
					mu.Unlock()
				}
			}
		}()
	}
	for i := range 8 {
		<-time.After(150 * time.Millisecond)
		c := metadata.NewPartitionChange(topicID("t"), 0)
		c.Leader = model.BrokerID(2 - i%2)
		first, second := a, b
		if i%4 < 2 {
			first, second = b, a // who hears of it first
		}
		first.apply(c)
		second.apply(c)
	}
	close(stop)
	producing.Wait()
	x, y := caughtUp(t, a, b)
	if !bytes.Equal(x, y) {
		t.Fatalf("the logs differ: %d and %d bytes", len(x), len(y))
	}
	have := map[string]bool{}
	it := record.NewIter(x)
	for it.Next() {
		_ = it.Batch().Each(1<<20, func(r *record.Record) error {
			have[string(r.Value)] = true
			return nil
		})
	}
	for _, v := range acked {
		if !have[v] {
			t.Fatalf("%s was acknowledged by all and is gone", v)
		}
	}
	t.Logf("%d acknowledged by all, %d bytes, %+v, %+v", len(acked), len(x), a.m.FollowStats(), b.m.FollowStats())
	if len(acked) == 0 {
		t.Error("nothing was acknowledged")
	}
}

// sendLive produces one record to whichever broker leads.
func sendLive(a, b *live, acks int16, value string) bool {
	l := a
	if b.m.Get("t", 0).State().Role == partition.Leader {
		l = b
	}
	builder := record.NewBuilder(record.Options{})
	builder.Append(1_700_000_000_000, nil, []byte(value))
	rules := record.DefaultRules(1_700_000_000_000)
	prepared, reject := record.Validate(builder.Build(), &rules)
	o := &once{ready: make(chan struct{})}
	l.m.Get("t", 0).Produce(ProduceMsg{Prepared: prepared, Reject: reject, Acks: acks, Waiter: o, Deadline: model.Never})
	<-o.ready
	return o.produced.Code == 0
}

// caughtUp waits until both have the same end, and returns their logs.
func caughtUp(t *testing.T, a, b *live) (x, y []byte) {
	t.Helper()
	for range 500 {
		s, o := a.m.Get("t", 0).State(), b.m.Get("t", 0).State()
		if s.LogEnd == o.LogEnd && s.HighWatermark == s.LogEnd && o.HighWatermark == s.LogEnd {
			return logBytes(t, s), logBytes(t, o)
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("they don't come together: %+v and %+v", a.m.Get("t", 0).State().Mark, b.m.Get("t", 0).State().Mark)
	return nil, nil
}

func logBytes(t *testing.T, s *State) (out []byte) {
	t.Helper()
	err := s.View.Batches(s.LogStart, make([]byte, 1<<20), func(b record.Batch) error {
		out = append(out, b...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
