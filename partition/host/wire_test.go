package host

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/protocol/record"
)

// errCut is what a request over a cut wire gets.
var errCut = errors.New("the wire is cut")

// pair is two brokers, 1 and 2, with the replicas of partitions of topic "t", and
// a wire between them. Everything runs on the test's goroutine.
type pair struct {
	t     *testing.T
	nodes [2]*node
	wires [2]*wire // by which node i reads from the other
	parts int
}

func newPair(t *testing.T, parts int, overrides map[string]string, settings ...func(*config.Broker)) *pair {
	t.Helper()
	p := &pair{t: t, parts: parts}
	rt := newFakeRuntime()
	for i := range p.nodes {
		n := newNode(t)
		n.self, n.rt, n.alters = model.BrokerID(i+1), rt, &alterInbox{}
		n.topic["t"] = overrides
		for _, set := range settings {
			set(n.cfg)
		}
		p.wires[i] = &wire{p: p, from: i}
		n.leaders = p.wires[i]
		p.nodes[i] = n
		n.start()
	}
	p.apply(&metadata.RegisterBroker{ID: 1, Epoch: model.NoBrokerEpoch})
	p.apply(&metadata.RegisterBroker{ID: 2, Epoch: model.NoBrokerEpoch})
	for i, n := range p.nodes {
		n.epoch = n.img.Broker(n.self).Epoch
		n.m.Registered(n.epoch)
		p.apply(&metadata.BrokerChange{ID: model.BrokerID(i + 1), Epoch: n.epoch, Fenced: metadata.Clear})
	}
	recs := []metadata.Record{&metadata.TopicRecord{Name: "t", ID: topicID("t")}}
	for n := range parts {
		recs = append(recs, &metadata.PartitionRecord{
			TopicID: topicID("t"), Partition: int32(n),
			PartitionRegistration: metadata.PartitionRegistration{
				Replicas: []model.BrokerID{1, 2}, ISR: []model.BrokerID{1, 2}, Leader: 1,
			},
		})
	}
	p.apply(recs...)
	return p
}

func (p *pair) apply(recs ...metadata.Record) {
	p.t.Helper()
	for _, n := range p.nodes {
		n.apply(recs...)
	}
}

// elect has another broker lead partition 0 with the given ISR.
func (p *pair) elect(leader model.BrokerID, isr ...model.BrokerID) {
	p.t.Helper()
	c := metadata.NewPartitionChange(topicID("t"), 0)
	c.Leader, c.ISR = leader, isr
	p.apply(c)
}

func (p *pair) hosted(broker int) *Hosted { return p.nodes[broker-1].m.Get("t", 0) }

// settle runs everything that can run without time passing: fsyncs, requests,
// spares.
func (p *pair) settle() {
	p.t.Helper()
	for round := 0; ; round++ {
		if round > 10_000 {
			p.t.Fatal("it doesn't come to rest")
		}
		did := 0
		for i, n := range p.nodes {
			n.rt.idle()
			for _, f := range n.flush {
				did += f.run()
			}
			did += p.wires[i].run()
		}
		p.nodes[0].rt.idle()
		if did == 0 {
			return
		}
	}
}

// wait lets time pass.
func (p *pair) wait(msec int64) {
	p.t.Helper()
	for ; msec > 0; msec -= 10 {
		p.nodes[0].rt.advance(10)
		p.settle()
	}
}

func (p *pair) produce(broker int, n int) *answers {
	p.t.Helper()
	a := p.nodes[broker-1].send(p.hosted(broker), -1, batchOf(n, -1, 0))
	p.settle()
	return a
}

// same says whether both logs hold the same bytes.
func (p *pair) same() {
	p.t.Helper()
	a, b := p.bytes(1), p.bytes(2)
	if string(a) != string(b) {
		p.t.Errorf("the logs differ: %d and %d bytes", len(a), len(b))
	}
}

func (p *pair) bytes(broker int) []byte {
	p.t.Helper()
	s := p.hosted(broker).State()
	var out []byte
	for at := s.LogStart; at < s.LogEnd; {
		r, err := s.View.Read(at, s.LogEnd, 1<<20, true)
		if err != nil {
			p.t.Fatal(err)
		}
		b := make([]byte, r.Len())
		if _, err := r.ReadAt(b, 0); err != nil {
			p.t.Fatal(err)
		}
		r.Release()
		records := partition.CheckRecords(b)
		if records.Len() == 0 {
			break
		}
		out = append(out, b[:records.Len()]...)
		at = lastOf(b[:records.Len()]) + 1
	}
	return out
}

// wire serves the requests of one node's fetchers from the other node, as a
// broker does: sessions, the leader's verdict, records by the View. It is a
// Leaders; requests wait until run.
type wire struct {
	p        *pair
	from     int
	cut      bool
	queue    []wired
	sessions *FetchSessionCache
	parked   []*parkedFetch
	opened   int
	closed   int
	damage   int // of so many answers a bit is flipped
	lists    int // ListOffsets seen
}

type wired struct {
	req  kmsg.Request
	done LinkReceiver
}

func (w *wire) Open(model.BrokerID, int) LeaderLink { w.opened++; return &wireLink{w: w} }

type wireLink struct {
	w *wire
}

func (l *wireLink) Send(req kmsg.Request, done LinkReceiver) {
	l.w.queue = append(l.w.queue, wired{req, done})
}

func (l *wireLink) Close() { l.w.closed++ }

// run serves what is queued, and what is parked if the leader's end has moved.
func (w *wire) run() (did int) {
	parked := w.parked
	w.parked = nil
	for _, f := range parked {
		switch {
		case f.over:
		case w.cut:
			f.over = true
			f.ctx.Abandon()
			f.done.LinkAnswered(LinkAnswer{Err: errCut})
			did++
		case f.moved():
			f.serve(true)
			did++
		default:
			w.parked = append(w.parked, f)
		}
	}
	queue := w.queue
	w.queue = nil
	for _, q := range queue {
		did++
		if w.cut {
			q.done.LinkAnswered(LinkAnswer{Err: errCut})
			continue
		}
		q.req.SetVersion(min(q.req.MaxVersion(), 18))
		switch req := q.req.(type) {
		case *kmsg.FetchRequest:
			w.fetch(req, q.done)
		case *kmsg.ListOffsetsRequest:
			w.lists++
			w.bounds(req, q.done)
		}
	}
	return did
}

// poisoned is a frame that is overwritten when nobody holds it.
type poisoned struct {
	b    []byte
	held int
}

func (f *poisoned) Retain() { f.held++ }
func (f *poisoned) Release() {
	if f.held--; f.held == 0 {
		for i := range f.b {
			f.b[i] = 0xdb
		}
	}
}

// reply sends a response through its bytes.
func (w *wire) reply(resp kmsg.Response, done LinkReceiver) {
	b := resp.AppendTo(nil)
	frame := &poisoned{b: b, held: 1}
	out := resp.RequestKind().ResponseKind()
	out.SetVersion(resp.GetVersion())
	if err := out.ReadFrom(b); err != nil {
		w.p.t.Fatal(err)
	}
	done.LinkAnswered(LinkAnswer{Msg: out, Hold: frame})
}

// judged collects the leader's verdicts.
type judged struct {
	results []partition.ReplicaResult
	states  []*State
}

func (j *judged) ReplicaFetchDone(slot int32, r partition.ReplicaResult, s *State) {
	j.results[slot], j.states[slot] = r, s
}

// parkedFetch is a fetch that waits for its leader's logs to grow.
type parkedFetch struct {
	w    *wire
	req  *kmsg.FetchRequest
	done LinkReceiver
	ctx  *FetchContext
	ends []model.Offset
	over bool
}

// fetch begins a follower's fetch.
func (w *wire) fetch(req *kmsg.FetchRequest, done LinkReceiver) {
	peer := w.p.nodes[1-w.from]
	if w.sessions == nil {
		w.sessions = NewFetchSessionCache(10, rand.New(rand.NewPCG(1, 1)))
	}
	now := peer.rt.Now().Mono
	ctx, code := w.sessions.Begin(now, req, true)
	if code != 0 {
		resp := kmsg.NewPtrFetchResponse()
		resp.Version, resp.ErrorCode = req.Version, code
		w.reply(resp, done)
		return
	}
	f := &parkedFetch{w: w, req: req, done: done, ctx: ctx}
	if f.serve(false) {
		return
	}
	w.parked = append(w.parked, f)
	peer.rt.SetDeadline(&later{func() { f.serve(true) }}, now+model.Instant(req.MaxWaitMillis)*1_000_000)
}

// moved says whether there is more to read than when it was parked.
func (f *parkedFetch) moved() bool {
	for i, part := range f.ctx.Partitions() {
		h := f.w.p.nodes[1-f.w.from].m.GetByID(model.TopicIDPartition{TopicID: part.TopicID, Partition: part.Partition})
		if h == nil || h.State().LogEnd != f.ends[i] || h.State().Role != partition.Leader {
			return true
		}
	}
	return false
}

// serve answers if there is something to say, or after the wait.
func (f *parkedFetch) serve(again bool) bool {
	if f.over {
		return true
	}
	w := f.w
	peer := w.p.nodes[1-w.from]
	parts := f.ctx.Partitions()
	j := &judged{results: make([]partition.ReplicaResult, len(parts)), states: make([]*State, len(parts))}
	rps := make([]kmsg.FetchResponseTopicPartition, len(parts))
	f.ends = make([]model.Offset, len(parts))
	ready := again
	for i, part := range parts {
		var had int
		rps[i], had = w.part(peer, part, f.req, j, i, again)
		ready = ready || had > 0 || lacking(part, &rps[i]) || rps[i].ErrorCode != 0 || rps[i].DivergingEpoch.Epoch >= 0
		if j.states[i] != nil {
			f.ends[i] = j.states[i].LogEnd
		}
	}
	if !ready {
		return false
	}
	f.over = true
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = f.req.Version
	t := kmsg.NewFetchResponseTopic()
	t.TopicID = topicID("t")
	for i, part := range parts {
		rp := rps[i]
		if f.ctx.Include(part, FetchOutcome{
			Code: rp.ErrorCode, HighWatermark: model.Offset(rp.HighWatermark), LogStart: model.Offset(rp.LogStartOffset),
			Bytes: len(rp.RecordBatches), Diverging: rp.DivergingEpoch.Epoch >= 0, Lacking: lacking(part, &rp),
		}) {
			t.Partitions = append(t.Partitions, rp)
		}
	}
	if len(t.Partitions) > 0 {
		resp.Topics = append(resp.Topics, t)
	}
	resp.SessionID, resp.ErrorCode = f.ctx.Finish(peer.rt.Now().Mono)
	w.reply(resp, f.done)
	return true
}

// lacking says whether the follower has told a lower log start than there is.
func lacking(part *FetchPartition, rp *kmsg.FetchResponseTopicPartition) bool {
	return rp.ErrorCode == 0 && len(rp.RecordBatches) == 0 && part.LogStart < model.Offset(rp.LogStartOffset)
}

func (w *wire) part(peer *node, part *FetchPartition, req *kmsg.FetchRequest, j *judged, i int, again bool) (kmsg.FetchResponseTopicPartition, int) {
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition, rp.HighWatermark, rp.LogStartOffset = part.Partition, -1, -1
	h := peer.m.GetByID(model.TopicIDPartition{TopicID: part.TopicID, Partition: part.Partition})
	if h == nil {
		rp.ErrorCode = 3
		return rp, 0
	}
	h.ReplicaFetch(ReplicaFetchMsg{ReplicaFetch: partition.ReplicaFetch{
		Replica: model.BrokerID(req.ReplicaState.ID), BrokerEpoch: model.BrokerEpoch(req.ReplicaState.Epoch),
		CurrentEpoch: part.CurrentEpoch, Offset: part.Offset, LastEpoch: part.LastEpoch, LogStart: part.LogStart, Reread: again,
	}, Suspect: part.Suspect, Waiter: j, Slot: int32(i)})
	r, s := j.results[i], j.states[i]
	if s == nil {
		w.p.t.Fatalf("no verdict on %+v", part)
	}
	if rp.ErrorCode = r.Code; r.Code != 0 {
		return rp, 0
	}
	rp.HighWatermark, rp.LogStartOffset = int64(r.Mark.HighWatermark), int64(r.Mark.LogStart)
	if r.Diverging.Epoch >= 0 {
		rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = int32(r.Diverging.Epoch), int64(r.Diverging.Offset)
		return rp, 0
	}
	region, err := s.View.Read(part.Offset, r.Mark.LogEnd, int(part.MaxBytes), true)
	if err != nil {
		w.p.t.Fatal(err)
	}
	defer region.Release()
	rp.RecordBatches = make([]byte, region.Len())
	if _, err := region.ReadAt(rp.RecordBatches, 0); err != nil {
		w.p.t.Fatal(err)
	}
	if w.damage > 0 && len(rp.RecordBatches) > 70 {
		w.damage--
		rp.RecordBatches[70] ^= 1
	}
	return rp, region.Len()
}

func (w *wire) bounds(req *kmsg.ListOffsetsRequest, done LinkReceiver) {
	peer := w.p.nodes[1-w.from]
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Version = req.Version
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			r := peer.m.Get(t.Topic, p.Partition).State().ListOffsets(ListOffsetsQuery{
				Timestamp: model.Timestamp(p.Timestamp), CurrentEpoch: model.LeaderEpoch(p.CurrentLeaderEpoch),
				Replica: model.BrokerID(req.ReplicaID), Version: req.Version,
			})
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.Offset = p.Partition, r.Code, int64(r.Offset)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	w.reply(resp, done)
}

// lastOf is the last offset of a set.
func lastOf(set []byte) model.Offset {
	last := model.NoOffset
	it := record.NewIter(set)
	for it.Next() {
		last = it.Batch().LastOffset()
	}
	return last
}

// later is a function that the runtime calls at a time.
type later struct{ fn func() }

func (l *later) TickAt(model.Now) { l.fn() }
