package broker

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/record"
	"github.com/tidemark/tidemark/protocol/server"
)

// pendingProduce gathers the results of a Produce request's partitions and
// answers when the last one is in. It is recycled with its response, so that a
// produce allocates next to nothing.
type pendingProduce struct {
	b        *Broker
	r        *server.Request
	acks     int16
	deadline model.Instant
	resp     kmsg.ProduceResponse
	parts    []*kmsg.ProduceResponseTopicPartition // by slot; each written by its ProduceDone only
	left     atomic.Int32                          // results still to come, and one for the handler itself
	failed   atomic.Bool
	moved    atomic.Bool // some partition named another leader
}

// produces recycles pendingProduces.
type produces struct{ pool sync.Pool }

func (s *produces) get() *pendingProduce {
	if p, ok := s.pool.Get().(*pendingProduce); ok {
		return p
	}
	return new(pendingProduce)
}

// begin shapes the response after the request.
func (p *pendingProduce) begin(b *Broker, r *server.Request, req *kmsg.ProduceRequest) {
	p.b, p.r, p.acks = b, r, req.Acks
	p.deadline = r.Received.Mono + model.Instant(max(req.TimeoutMillis, 0))*nanosPerMilli
	p.failed.Store(false)
	p.moved.Store(false)
	topics, parts := p.resp.Topics, p.parts[:0]
	p.resp.Default()
	p.resp.Version, p.resp.Brokers = req.Version, nil
	p.resp.Topics = resize(topics, len(req.Topics))
	for i := range req.Topics {
		t := &p.resp.Topics[i]
		old := t.Partitions
		t.Default()
		t.Topic, t.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		t.Partitions = resize(old, len(req.Topics[i].Partitions))
		for j := range t.Partitions {
			q := &t.Partitions[j]
			*q = kmsg.ProduceResponseTopicPartition{}
			q.Default()
			q.Partition = req.Topics[i].Partitions[j].Partition
			parts = append(parts, q)
		}
	}
	p.parts = parts
	p.left.Store(int32(len(parts)) + 1)
}

// resize returns s with length n, keeping what its elements hold.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return append(s[:cap(s)], make([]T, n-cap(s))...)
}

// refuse answers one partition without asking it.
func (p *pendingProduce) refuse(slot int32, code protocol.Code, why string) {
	q := p.parts[slot]
	q.ErrorCode, q.BaseOffset, q.LogAppendTime, q.LogStartOffset = code, -1, -1, -1
	if why != "" {
		q.ErrorMessage = &why
	}
	p.failed.Store(true)
	p.done(1)
}

// redirect refuses one partition that is not here and names its leader.
func (p *pendingProduce) redirect(slot int32, reg *metadata.PartitionRegistration) {
	if reg.Leader != model.NoLeader {
		q := p.parts[slot]
		q.CurrentLeader.LeaderID, q.CurrentLeader.LeaderEpoch = int32(reg.Leader), int32(reg.LeaderEpoch)
		p.moved.Store(true)
	}
	p.refuse(slot, protocol.CodeNotLeaderOrFollower, "")
}

func (p *pendingProduce) reject(slot int32, reject *record.Rejection) {
	p.parts[slot].ErrorRecords = errorRecords(reject.Records)
	p.refuse(slot, reject.Code, reject.Message)
}

func errorRecords(rs []record.RecordError) []kmsg.ProduceResponseTopicPartitionErrorRecord {
	var out []kmsg.ProduceResponseTopicPartitionErrorRecord
	for i := range rs {
		e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		e.RelativeOffset = rs[i].Index
		if rs[i].Message != "" {
			e.ErrorMessage = &rs[i].Message
		}
		out = append(out, e)
	}
	return out
}

// ProduceDone implements host.ProduceWaiter.
func (p *pendingProduce) ProduceDone(slot int32, res host.ProduceResult) {
	q := p.parts[slot]
	q.ErrorCode = res.Code
	q.BaseOffset, q.LogAppendTime, q.LogStartOffset = int64(res.BaseOffset), int64(res.AppendTime), int64(res.LogStart)
	if res.Code != protocol.CodeNone {
		p.failed.Store(true)
		if res.Message != "" {
			q.ErrorMessage = &res.Message
		}
		q.ErrorRecords = errorRecords(res.Records)
		if res.Code == protocol.CodeNotLeaderOrFollower && res.Leader != model.NoLeader {
			q.CurrentLeader.LeaderID, q.CurrentLeader.LeaderEpoch = int32(res.Leader), int32(res.LeaderEpoch)
			p.moved.Store(true)
		}
	}
	p.done(1)
}

// ProduceStranded implements host.StrandedWaiter. If the handler itself hangs in
// the write, no answer can come of this request: its connection is closed, and
// the client asks again on another.
func (p *pendingProduce) ProduceStranded(int32) { p.r.Conn.GiveUp("a disk does not answer") }

// done counts n results and answers after the last.
func (p *pendingProduce) done(n int32) {
	if p.left.Add(-n) != 0 {
		return
	}
	switch {
	case p.acks != 0:
		if p.moved.Load() {
			p.resp.Brokers = p.b.produceEndpoints(p.r.Listener)
		}
		p.r.Reply(&p.resp)
	case p.failed.Load():
		p.r.CloseConn("a produce with acks=0 failed")
	default:
		p.r.NoReply()
	}
	b := p.b
	p.b, p.r = nil, nil
	b.produces.pool.Put(p)
}

// produceEndpoints lists where brokers are reached, for clients that are told of
// another leader. Source: KIP-951.
func (b *Broker) produceEndpoints(listener string) []kmsg.ProduceResponseBroker {
	var out []kmsg.ProduceResponseBroker
	for _, e := range b.endpoints(listener) {
		rb := kmsg.NewProduceResponseBroker()
		rb.NodeID, rb.Host, rb.Port = int32(e.ID), e.Host, e.Port
		if e.Rack != "" {
			rb.Rack = &e.Rack
		}
		out = append(out, rb)
	}
	return out
}

// endpoints lists the live brokers' addresses under one listener.
func (b *Broker) endpoints(listener string) []protocol.NodeEndpoint {
	var out []protocol.NodeEndpoint
	for _, reg := range b.quorum.Image().Brokers() {
		if l, ok := reg.Listener(listener); ok && !reg.Fenced {
			out = append(out, protocol.NodeEndpoint{ID: reg.ID, Host: l.Host, Port: int32(l.Port), Rack: reg.Rack})
		}
	}
	return out
}
