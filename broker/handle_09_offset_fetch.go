package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// OffsetFetch (9), versions 1-10.
//
// The committed offsets of a group, or from version 8 of several. No topics means
// all from version 2. What was never committed is offset -1 without an error, and
// so is everything of a group that doesn't exist. RequireStable (from 7, KIP-447)
// waits for commits that are under way. Topics are told by id from version 10;
// an unknown one is UNKNOWN_TOPIC_ID.
func (b *Broker) handleOffsetFetch(r *server.Request) {
	req := r.Msg.(*kmsg.OffsetFetchRequest)
	v := r.Header.Version
	groups := req.Groups
	if v < 8 {
		groups = []kmsg.OffsetFetchRequestGroup{oneGroup(req)}
	}
	p := &pendingOffsets{r: r, parts: make([]*kmsg.OffsetFetchResponseGroup, len(groups))}
	p.left.Store(int32(len(groups)) + 1)
	img := b.quorum.Image()
	for i := range groups {
		g := &groups[i]
		q := &offsetsOfGroup{p: p, slot: i, img: img, asked: g}
		ask := &group.FetchOffsets{Topics: q.resolve(v), All: g.Topics == nil && v >= 2, Stable: req.RequireStable, Epoch: -1}
		if v >= 9 && g.MemberID != nil {
			ask.Member, ask.Epoch = *g.MemberID, g.MemberEpoch
		}
		b.groups.call(r, g.Group, ask, q.answered)
	}
	p.done()
}

// oneGroup is the group of a request up to version 7.
func oneGroup(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for i := range req.Topics {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
		g.Topics = append(g.Topics, t)
	}
	return g
}

// pendingOffsets gathers the groups of one OffsetFetch.
type pendingOffsets struct {
	r     *server.Request
	parts []*kmsg.OffsetFetchResponseGroup // by slot; each written by its answer only
	left  atomic.Int32
}

func (p *pendingOffsets) done() {
	if p.left.Add(-1) == 0 {
		p.r.Reply(p.response())
	}
}

// offsetsOfGroup is one group of an OffsetFetch.
type offsetsOfGroup struct {
	p       *pendingOffsets
	slot    int
	img     *metadata.Image
	asked   *kmsg.OffsetFetchRequestGroup
	unknown []kmsg.OffsetFetchResponseGroupTopic // ids that name nothing
}

// resolve turns topic ids into names, and answers those that name nothing.
func (q *offsetsOfGroup) resolve(version int16) []kmsg.OffsetFetchRequestGroupTopic {
	if version < 10 {
		return q.asked.Topics
	}
	var known []kmsg.OffsetFetchRequestGroupTopic
	for _, t := range q.asked.Topics {
		if topic := q.img.TopicByID(t.TopicID); topic != nil {
			t.Topic = topic.Name
			known = append(known, t)
			continue
		}
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.TopicID = t.TopicID
		for _, n := range t.Partitions {
			rp := noOffset(n)
			rp.ErrorCode = protocol.CodeUnknownTopicID
			rt.Partitions = append(rt.Partitions, rp)
		}
		q.unknown = append(q.unknown, rt)
	}
	return known
}

func noOffset(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = partition, -1, -1, new(string)
	return rp
}

func (q *offsetsOfGroup) answered(c *coordinator.Call) {
	g, ok := c.Response.(*kmsg.OffsetFetchResponseGroup)
	if !ok {
		failed := kmsg.NewOffsetFetchResponseGroup()
		g = &failed
		g.Group, g.ErrorCode = q.asked.Group, c.Code
		if c.Version < 2 {
			q.failEach(g)
		}
	}
	if c.Version >= 10 {
		known := g.Topics[:0]
		for _, t := range g.Topics {
			if topic := q.img.Topic(t.Topic); topic != nil {
				t.TopicID = topic.ID
				known = append(known, t)
			}
		}
		g.Topics = append(known, q.unknown...)
	}
	q.p.parts[q.slot] = g
	q.p.done()
}

// failEach gives every partition the error: version 1 has no other place for it.
func (q *offsetsOfGroup) failEach(g *kmsg.OffsetFetchResponseGroup) {
	for _, t := range q.asked.Topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic = t.Topic
		for _, n := range t.Partitions {
			rp := noOffset(n)
			rp.ErrorCode = g.ErrorCode
			rt.Partitions = append(rt.Partitions, rp)
		}
		g.Topics = append(g.Topics, rt)
	}
}

// response is the answer in the shape of the request's version.
func (p *pendingOffsets) response() *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if p.r.Header.Version >= 8 {
		for _, g := range p.parts {
			resp.Groups = append(resp.Groups, *g)
		}
		return resp
	}
	g := p.parts[0]
	resp.ErrorCode = g.ErrorCode
	for i := range g.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = g.Topics[i].Topic
		for _, gp := range g.Topics[i].Partitions {
			tp := kmsg.NewOffsetFetchResponseTopicPartition()
			tp.Partition, tp.Offset, tp.LeaderEpoch, tp.Metadata, tp.ErrorCode = gp.Partition, gp.Offset, gp.LeaderEpoch, gp.Metadata, gp.ErrorCode
			t.Partitions = append(t.Partitions, tp)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
