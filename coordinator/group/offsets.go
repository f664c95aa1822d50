package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// committing is the write of a commit.
type committing struct{ resp *kmsg.OffsetCommitResponse }

// commit handles an OffsetCommit. That the topics exist was checked by the
// broker; partitions that failed there are not in the request.
func (m *Machine) commit(now model.Now, c *coordinator.Call, req *kmsg.OffsetCommitRequest, out *coordinator.Out) {
	g := m.groups[c.Key]
	if code := m.mayCommit(now, g, c, req); code != codeNone {
		out.Answer(c, commitResponse(req, code))
		return
	}
	expires := model.NoTimestamp
	if req.RetentionTimeMillis >= 0 && c.Version >= 2 && c.Version <= 4 {
		expires = now.Wall + model.Timestamp(req.RetentionTimeMillis)
	}
	resp := commitResponse(req, codeNone)
	var records []coordinator.Record
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			text := ""
			if p.Metadata != nil {
				text = *p.Metadata
			}
			if len(text) > m.cfg.MetadataMax {
				resp.Topics[i].Partitions[j].ErrorCode = codeOffsetMetadataTooLarge
				continue
			}
			records = append(records, offsetRecord(c.Key, t.Topic, p.Partition, &committed{
				offset: p.Offset, epoch: p.LeaderEpoch, metadata: text, at: now.Wall, expires: expires,
			}))
		}
	}
	if len(records) == 0 {
		out.Answer(c, resp)
		return
	}
	m.get(c.Key)
	out.Write(&coordinator.Write{Records: records, Call: c, Timeout: m.cfg.CommitTimeout, Token: &committing{resp}})
}

// mayCommit checks who commits. A commit is a sign of life too.
func (m *Machine) mayCommit(now model.Now, g *group, c *coordinator.Call, req *kmsg.OffsetCommitRequest) Code {
	if g == nil {
		switch {
		case req.Generation < 0:
			return codeNone // no member: an administrator, or a consumer on its own
		case c.Version >= 9:
			return codeGroupIDNotFound
		}
		return codeIllegalGeneration
	}
	if g.consumer != nil {
		return m.mayCommitAsPeer(g, c, req)
	}
	cl := g.classic
	switch {
	case req.Generation < 0 && cl.state == Empty:
		return codeNone
	case req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil:
		return codeUnknownMemberID
	}
	mem, code := cl.checkMember(req.MemberID, req.InstanceID)
	switch {
	case code != codeNone:
		return code
	case req.Generation != cl.generation && !mutant.On("group-commit-any-generation"):
		return codeIllegalGeneration
	case cl.state == CompletingRebalance:
		return codeRebalanceInProgress
	}
	m.armSession(mem, now, mem.sessionTimeout)
	return codeNone
}

// committed answers a commit.
func (m *Machine) committed(w *coordinator.Write, t *committing, code Code, out *coordinator.Out) {
	req := w.Call.Request.(*kmsg.OffsetCommitRequest)
	switch code {
	case codeNone:
		m.stats.Commits += int64(len(w.Records))
		out.Answer(w.Call, t.resp)
	case coordinator.CodeMessageTooLarge, coordinator.CodeRecordListTooLarge:
		out.Answer(w.Call, commitResponse(req, codeInvalidCommitOffsetSize))
	default:
		out.Answer(w.Call, commitResponse(req, coordinator.ClientCode(code)))
	}
}

// commitResponse answers every partition of a commit with one code.
func commitResponse(req *kmsg.OffsetCommitRequest, code Code) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for j := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = t.Partitions[j].Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// fetching is a barrier: a fetch that waits for the commits under way.
type fetching struct{ req *FetchOffsets }

// fetch handles one group's OffsetFetch. A group that doesn't exist has no
// offsets, which is no error.
func (m *Machine) fetch(c *coordinator.Call, req *FetchOffsets, out *coordinator.Out) {
	if g := m.groups[c.Key]; g != nil && g.consumer != nil && (req.Member != "" || req.Epoch >= 0) {
		if code := g.consumer.MayCommit(req.Member, nil, req.Epoch); code != codeNone {
			out.Fail(c, code)
			return
		}
	}
	if req.Stable && len(m.pending) > 0 {
		out.Write(&coordinator.Write{Call: c, Timeout: m.cfg.CommitTimeout, Token: &fetching{req}})
		return
	}
	m.answerFetch(c, req, out)
}

func (m *Machine) answerFetch(c *coordinator.Call, req *FetchOffsets, out *coordinator.Out) {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = c.Key
	var offsets map[string]map[int32]committed
	if g := m.groups[c.Key]; g != nil {
		offsets = g.offsets
	}
	topics := req.Topics
	if req.All {
		topics = allTopics(offsets)
	}
	for i := range topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = topics[i].Topic, topics[i].TopicID
		parts := offsets[topics[i].Topic]
		for _, p := range topics[i].Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			text := ""
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, -1, -1, &text
			if o, ok := parts[p]; ok {
				text = o.metadata
				rp.Offset, rp.LeaderEpoch = o.offset, o.epoch
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	out.Answer(c, &resp)
}

// allTopics names everything that has an offset, sorted.
func allTopics(offsets map[string]map[int32]committed) []kmsg.OffsetFetchRequestGroupTopic {
	var topics []kmsg.OffsetFetchRequestGroupTopic
	for _, name := range slices.Sorted(maps.Keys(offsets)) { // order-free: sorted
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic = name
		t.Partitions = slices.Sorted(maps.Keys(offsets[name])) // order-free: sorted
		topics = append(topics, t)
	}
	return topics
}

// deleteOffsets handles an OffsetDelete. Source: KIP-496.
func (m *Machine) deleteOffsets(c *coordinator.Call, req *kmsg.OffsetDeleteRequest, out *coordinator.Out) {
	g := m.groups[c.Key]
	switch {
	case c.Key == "":
		out.Fail(c, codeInvalidGroupID)
		return
	case g == nil:
		out.Fail(c, codeGroupIDNotFound)
		return
	case g.classic.state != Empty && g.classic.protocolType != consumerType:
		out.Fail(c, codeNonEmptyGroup)
		return
	}
	resp := kmsg.NewPtrOffsetDeleteResponse()
	var records []coordinator.Record
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		reads := g.classic.reads(t.Topic) || g.consumer != nil && g.consumer.Subscribed(t.Topic)
		for j := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition = t.Partitions[j].Partition
			switch {
			case reads:
				rp.ErrorCode = codeGroupSubscribedToTopic
			case m.has(g, t.Topic, rp.Partition):
				records = append(records, offsetTombstone(g.id, t.Topic, rp.Partition))
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	m.writeThenAnswer(c, records, resp, out)
}

// writeThenAnswer answers a call when records are committed; at once if there
// are none. Many records go in several batches.
func (m *Machine) writeThenAnswer(c *coordinator.Call, records []coordinator.Record, response any, out *coordinator.Out) {
	if len(records) == 0 {
		out.Answer(c, response)
		return
	}
	for ; len(records) > batchRecordsMax; records = records[batchRecordsMax:] {
		out.Write(&coordinator.Write{Records: records[:batchRecordsMax:batchRecordsMax], Timeout: m.cfg.CommitTimeout})
	}
	out.Write(&coordinator.Write{Records: records, Call: c, Timeout: m.cfg.CommitTimeout, Token: &answering{response}})
}

// has reports whether there is an offset, or one is on its way.
func (m *Machine) has(g *group, topic string, partition int32) bool {
	if _, ok := g.offsets[topic][partition]; ok {
		return true
	}
	if g.waiting > 0 {
		for i := range m.pending {
			if p := &m.pending[i]; p.group == g && p.topic == topic && p.partition == partition && p.value != nil {
				return true
			}
		}
	}
	return false
}

// tombstones are those of every offset of a group, committed or on its way.
func (m *Machine) tombstones(g *group) []coordinator.Record {
	gone := make(map[model.TopicPartition]bool)
	for topic, parts := range g.offsets { // order-free: sorted below
		for p := range parts { // order-free: sorted below
			gone[model.TopicPartition{Topic: topic, Partition: p}] = true
		}
	}
	if g.waiting > 0 {
		for i := range m.pending {
			if p := &m.pending[i]; p.group == g {
				gone[model.TopicPartition{Topic: p.topic, Partition: p.partition}] = true
			}
		}
	}
	var records []coordinator.Record
	for _, tp := range sortedPartitions(gone) {
		records = append(records, offsetTombstone(g.id, tp.Topic, tp.Partition))
	}
	return records
}

// sortedPartitions lists a set in order.
func sortedPartitions(set map[model.TopicPartition]bool) []model.TopicPartition {
	return slices.SortedFunc(maps.Keys(set), func(a, b model.TopicPartition) int { // order-free: sorted
		if a.Topic != b.Topic {
			if a.Topic < b.Topic {
				return -1
			}
			return 1
		}
		return int(a.Partition - b.Partition)
	})
}
