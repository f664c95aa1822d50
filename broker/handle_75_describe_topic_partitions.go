package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// DescribeTopicPartitions (75), version 0.
//
// Topics in the order of their names, a page at a time (KIP-966): the answer
// stops at the partition limit and says where to go on. Nothing is created. A
// topic that does not exist is answered with UNKNOWN_TOPIC_OR_PARTITION; a
// cursor with a negative partition, or a limit below one, is INVALID_REQUEST,
// for which the answer has no field but on a topic.
func (b *Broker) handleDescribeTopicPartitions(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeTopicPartitionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	limit := min(req.ResponsePartitionLimit, b.config.Server.DescribePartitionsMax)
	page := &partitionPage{m: metadataBuilder{img: b.quorum.Image(), listener: r.Listener}, left: int(max(limit, 1)), resp: resp}
	if c := req.Cursor; c != nil {
		if c.Partition < 0 {
			page.refuse(c.Topic, protocol.CodeInvalidRequest)
			r.Reply(resp)
			return
		}
		page.fromTopic, page.fromPartition = c.Topic, c.Partition
	}
	if len(req.Topics) == 0 {
		for t := range page.m.img.TopicsFrom(page.fromTopic) {
			if !page.add(t) {
				break
			}
		}
		r.Reply(resp)
		return
	}
	page.addNamed(req.Topics)
	r.Reply(resp)
}

// partitionPage fills one answer.
type partitionPage struct {
	m             metadataBuilder
	resp          *kmsg.DescribeTopicPartitionsResponse
	left          int // partitions that still fit
	fromTopic     string
	fromPartition int32
}

func (g *partitionPage) refuse(name string, code protocol.Code) {
	rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
	rt.Topic, rt.ErrorCode, rt.IsInternal = &name, code, internalTopic(name)
	g.resp.Topics = append(g.resp.Topics, rt)
}

func (g *partitionPage) addNamed(asked []kmsg.DescribeTopicPartitionsRequestTopic) {
	names := make([]string, 0, len(asked))
	for i := range asked {
		if asked[i].Topic >= g.fromTopic {
			names = append(names, asked[i].Topic)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		t := g.m.img.Topic(name)
		switch {
		case t != nil && !g.add(t):
			return
		case t == nil && legalTopicName(name):
			g.refuse(name, protocol.CodeUnknownTopicOrPartition)
		case t == nil:
			g.refuse(name, protocol.CodeInvalidTopicException)
		}
	}
}

// add puts as many partitions of t on the page as fit and reports whether the
// page has room for more; if not, the cursor is set.
func (g *partitionPage) add(t *metadata.Topic) bool {
	first := 0
	if t.Name == g.fromTopic {
		first = int(min(g.fromPartition, int32(len(t.Partitions))))
	}
	if g.left == 0 {
		g.cursor(t.Name, first)
		return false
	}
	rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
	rt.Topic, rt.TopicID, rt.IsInternal, rt.AuthorizedOperations = &t.Name, t.ID, internalTopic(t.Name), topicOperations
	last := min(first+g.left, len(t.Partitions))
	for i := first; i < last; i++ {
		rt.Partitions = append(rt.Partitions, g.m.described(int32(i), t.Partitions[i]))
	}
	g.left -= last - first
	g.resp.Topics = append(g.resp.Topics, rt)
	if last < len(t.Partitions) {
		g.cursor(t.Name, last)
		return false
	}
	return true
}

func (g *partitionPage) cursor(topic string, partition int) {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, int32(partition)
	g.resp.NextCursor = &c
}

func (m *metadataBuilder) described(n int32, p *metadata.PartitionRegistration) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	rp := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	rp.Partition, rp.LeaderID, rp.LeaderEpoch = n, int32(p.Leader), int32(p.LeaderEpoch)
	rp.Replicas, rp.ISR = brokerIDs(p.Replicas), brokerIDs(p.ISR)
	rp.EligibleLeaderReplicas, rp.LastKnownELR = brokerIDs(p.ELR), brokerIDs(p.LastKnown)
	rp.OfflineReplicas = m.offline(p)
	m.version = 12
	if rp.ErrorCode = m.leaderCode(p); rp.ErrorCode != protocol.CodeNone {
		rp.LeaderID = int32(model.NoLeader)
	}
	return rp
}
