package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// Metadata (3), versions 0-13.
//
// Which brokers exist and who leads what. An empty topic list means all in
// version 0 and none later, where null means all. From version 12 a topic may
// be asked for by id (KIP-516); versions 10 and 11 have the field and answer its
// use with INVALID_REQUEST. ControllerID is a live broker: any of them takes
// admin requests (KIP-590).
//
// A topic that does not exist is created if both the client and
// auto.create.topics.enable allow it. Apache Kafka answers such a request with
// UNKNOWN_TOPIC_OR_PARTITION at once and lets the client ask again; here the
// answer waits for the creation, so that the first produce of a client that
// retries little does not fail.
func (b *Broker) handleMetadata(r *server.Request) {
	req := r.Msg.(*kmsg.MetadataRequest)
	if asksByIDTooEarly(req) {
		r.Reply(refusedMetadata(req))
		return
	}
	names := b.creatable(req)
	if len(names) == 0 {
		r.Reply(b.metadata(r, req))
		return
	}
	p := &pendingMetadata{b: b, r: r, req: req}
	p.left.Store(int32(len(names)))
	for _, name := range names {
		b.creator.create(name, p)
	}
}

// asksByIDTooEarly reports whether a request tells a topic by id, or not at all,
// in a version that has topic ids but can't be asked by them.
func asksByIDTooEarly(req *kmsg.MetadataRequest) bool {
	if req.Version >= 12 {
		return false
	}
	for i := range req.Topics {
		if req.Topics[i].Topic == nil || req.Topics[i].TopicID != model.NoTopicID {
			return true
		}
	}
	return false
}

// refusedMetadata refuses every topic of a request and says nothing else.
func refusedMetadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.ControllerID = int32(model.NoLeader)
	m := metadataBuilder{version: req.Version}
	for i := range req.Topics {
		resp.Topics = append(resp.Topics, m.unknown(req.Topics[i].Topic, req.Topics[i].TopicID, protocol.CodeInvalidRequest))
	}
	return resp
}

// pendingMetadata is a Metadata request that waits for topics to be created.
type pendingMetadata struct {
	b    *Broker
	r    *server.Request
	req  *kmsg.MetadataRequest
	left atomic.Int32
}

func (p *pendingMetadata) created() {
	if p.left.Add(-1) == 0 {
		p.r.Reply(p.b.metadata(p.r, p.req))
	}
}

// creatable returns the names that the request asks for, that do not exist,
// that may exist, and that may be created on its behalf.
func (b *Broker) creatable(req *kmsg.MetadataRequest) []string {
	if !b.config.Topics.AutoCreate || req.Version >= 4 && !req.AllowAutoTopicCreation {
		return nil
	}
	img := b.quorum.Image()
	var names []string
	for i := range req.Topics {
		if n := req.Topics[i].Topic; n != nil && req.Topics[i].TopicID == model.NoTopicID &&
			img.Topic(*n) == nil && legalTopicName(*n) {
			names = append(names, *n)
		}
	}
	return names
}

func (b *Broker) metadata(r *server.Request, req *kmsg.MetadataRequest) kmsg.Response {
	img := b.quorum.Image()
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	cluster := img.ClusterID()
	resp.ClusterID = &cluster
	resp.ControllerID = int32(model.NoLeader)
	for _, reg := range img.Brokers() {
		l, ok := reg.Listener(r.Listener)
		if reg.Fenced || !ok {
			continue
		}
		mb := kmsg.NewMetadataResponseBroker()
		mb.NodeID, mb.Host, mb.Port, mb.Rack = int32(reg.ID), l.Host, int32(l.Port), rack(reg)
		resp.Brokers = append(resp.Brokers, mb)
		if resp.ControllerID < 0 || reg.ID == b.config.NodeID {
			resp.ControllerID = int32(reg.ID)
		}
	}
	resp.AuthorizedOperations = operations(req.IncludeClusterAuthorizedOperations, clusterOperations)
	all := req.Topics == nil || req.Version == 0 && len(req.Topics) == 0
	m := metadataBuilder{img: img, version: req.Version, listener: r.Listener, operations: operations(req.IncludeTopicAuthorizedOperations, topicOperations)}
	if all {
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, img.NumTopics())
		for t := range img.Topics() {
			resp.Topics = append(resp.Topics, m.topic(t))
		}
		return resp
	}
	for i := range req.Topics {
		resp.Topics = append(resp.Topics, m.asked(&req.Topics[i]))
	}
	return resp
}

func rack(reg *metadata.BrokerRegistration) *string {
	if reg.Rack == "" {
		return nil
	}
	return &reg.Rack
}

// metadataBuilder turns topics of one image into answers of one version.
type metadataBuilder struct {
	img        *metadata.Image
	version    int16
	listener   string
	operations int32
}

// asked answers for one topic of the request, by id or by name.
func (m *metadataBuilder) asked(q *kmsg.MetadataRequestTopic) kmsg.MetadataResponseTopic {
	if q.TopicID != model.NoTopicID {
		if t := m.img.TopicByID(q.TopicID); t != nil {
			return m.topic(t)
		}
		return m.unknown(nil, q.TopicID, protocol.CodeUnknownTopicID)
	}
	if q.Topic == nil {
		return m.unknown(nil, q.TopicID, protocol.CodeUnknownTopicID)
	}
	if t := m.img.Topic(*q.Topic); t != nil {
		return m.topic(t)
	}
	if !legalTopicName(*q.Topic) {
		return m.unknown(q.Topic, q.TopicID, protocol.CodeInvalidTopicException)
	}
	return m.unknown(q.Topic, q.TopicID, protocol.CodeUnknownTopicOrPartition)
}

func (m *metadataBuilder) unknown(name *string, id model.TopicID, code protocol.Code) kmsg.MetadataResponseTopic {
	rt := kmsg.NewMetadataResponseTopic()
	rt.ErrorCode, rt.Topic, rt.TopicID = code, name, id
	if name == nil && m.version < 12 {
		empty := ""
		rt.Topic = &empty
	}
	if name != nil {
		rt.IsInternal = internalTopic(*name)
	}
	return rt
}

func (m *metadataBuilder) topic(t *metadata.Topic) kmsg.MetadataResponseTopic {
	rt := kmsg.NewMetadataResponseTopic()
	rt.Topic, rt.TopicID, rt.IsInternal, rt.AuthorizedOperations = &t.Name, t.ID, internalTopic(t.Name), m.operations
	rt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i, p := range t.Partitions {
		rp := &rt.Partitions[i]
		rp.Default()
		rp.Partition = int32(i)
		rp.Leader, rp.LeaderEpoch = int32(p.Leader), int32(p.LeaderEpoch)
		rp.Replicas, rp.ISR = brokerIDs(p.Replicas), brokerIDs(p.ISR)
		rp.OfflineReplicas = m.offline(p)
		rp.ErrorCode = m.leaderCode(p)
		if rp.ErrorCode != protocol.CodeNone {
			rp.Leader = int32(model.NoLeader)
		}
	}
	return rt
}

// offline returns the replicas on brokers that are fenced or gone.
func (m *metadataBuilder) offline(p *metadata.PartitionRegistration) []int32 {
	var ids []int32
	for _, id := range p.Replicas {
		if reg := m.img.Broker(id); reg == nil || reg.Fenced || p.Directory(id) == metadata.DirectoryLost {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// leaderCode says whether the leader can be reached over the listener that the
// request came in on.
func (m *metadataBuilder) leaderCode(p *metadata.PartitionRegistration) protocol.Code {
	leader := m.img.Broker(p.Leader)
	if p.Leader == model.NoLeader || leader == nil || leader.Fenced {
		return protocol.CodeLeaderNotAvailable
	}
	if _, ok := leader.Listener(m.listener); !ok {
		if m.version < 6 {
			return protocol.CodeLeaderNotAvailable
		}
		return protocol.CodeListenerNotFound
	}
	return protocol.CodeNone
}

func brokerIDs(ids []model.BrokerID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}
