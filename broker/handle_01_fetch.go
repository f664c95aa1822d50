package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// Fetch (1), versions 4-18.
//
// Reads record batches from each partition named or remembered by a fetch
// session (KIP-227, v7). Topics are told by id from version 13. Records are
// whole file bytes: the first batch may begin below the asked offset and the
// last may be cut (KIP-74). With too little to give, the request waits for
// max.wait.ms; any error but that of a topic or partition that does not exist,
// diverging epoch (KIP-595, v12) or data on an older segment answers it at once.
//
// A follower's fetch (a replica id of its own) says where the follower's log ends:
// what is below that it has. It is given what the leader's log has, up to its end,
// and waits too, but not while it lacks the leader's high watermark (KIP-1166,
// v18) or log start: those it is told until it says that it has them. A broker epoch below the registered one is refused (KIP-903, v15). A
// consumer that names its rack (v11) is sent to a replica there, if the operator
// set replica.selector.class (KIP-392); followers serve consumers from version 11.
//
// Errors per partition: unknown topic (3, by id 100), not the leader (6, with the
// leader's id and epoch), epochs (74, 75), OFFSET_OUT_OF_RANGE (1),
// KAFKA_STORAGE_ERROR (56): also at and behind the damage of a partition that has no
// better copy, which is read below it. For the whole request: 70, 71 and 106 when the
// session is unknown, out of step, or of the other kind of topic naming. A
// replica that is not assigned to the partition is told so with
// UNKNOWN_LEADER_EPOCH if it named an epoch, else NOT_LEADER_OR_FOLLOWER.
func (b *Broker) handleFetch(r *server.Request) {
	req := r.Msg.(*kmsg.FetchRequest)
	replica := fetchReplica(req)
	ctx, code := b.sessions.Begin(r.Received.Mono, req, replica >= 0)
	if code != protocol.CodeNone {
		replyFetchError(r, code)
		return
	}
	p := b.fetches.get()
	p.b, p.r, p.ctx = b, r, ctx
	p.isolation = host.Isolation(req.IsolationLevel)
	p.mustLead = replica >= 0 || req.Version < 11
	p.maxBytes = int(min(req.MaxBytes, b.config.Server.FetchBytesMax))
	p.minBytes = min(int(req.MinBytes), p.maxBytes)
	p.take(b.quorum.Image(), ctx.Partitions(), req.Version)
	p.replica.id = replica
	if replica >= 0 {
		p.judge(req)
		return
	}
	if b.rackAware() && req.Version >= 11 {
		p.rack = req.Rack
	}
	p.run(r.Received, req.MaxWaitMillis)
}

// fetchReplica returns which replica fetches, -1 for a consumer.
func fetchReplica(req *kmsg.FetchRequest) model.BrokerID {
	if req.Version >= 15 {
		return model.BrokerID(req.ReplicaState.ID)
	}
	return model.BrokerID(req.ReplicaID)
}

func replyFetchError(r *server.Request, code protocol.Code) {
	body := server.NewFetchBody()
	body.Begin(r.Header.Version, protocol.FetchHead{Code: code})
	body.End(nil)
	r.ReplyFetch(body)
}

// take fills the items from what is to be read.
func (p *pendingFetch) take(img *metadata.Image, parts []*host.FetchPartition, version int16) {
	p.items = resize(p.items, len(parts))
	p.find(img, p.items, parts, version)
}

// find fills items with where their partitions are.
func (p *pendingFetch) find(img *metadata.Image, items []fetchItem, parts []*host.FetchPartition, version int16) {
	var topic *metadata.Topic
	for i, part := range parts {
		it := &items[i]
		if h := part.Watched(); h != nil && h.State().Role != partition.Offline {
			it.part, it.id, it.h, it.code, it.seen, it.diverges = part, h.ID().TopicID, h, protocol.CodeNone, nil, false
			continue
		}
		if topic == nil || topic.Name != part.Topic && topic.ID != part.TopicID {
			topic = lookupTopic(img, part.Topic, part.TopicID)
		}
		it.part, it.id, it.h, it.code, it.seen, it.diverges = part, part.TopicID, nil, protocol.CodeNone, nil, false
		it.leader = protocol.LeaderHint{ID: model.NoLeader, Epoch: model.NoEpoch}
		switch {
		case topic == nil && version >= 13:
			it.code = protocol.CodeUnknownTopicID
		case topic == nil || topic.Partition(part.Partition) == nil:
			it.code = protocol.CodeUnknownTopicOrPartition
		default:
			it.id = topic.ID
			it.h = p.b.replicas.GetByID(model.TopicIDPartition{TopicID: topic.ID, Partition: part.Partition})
			if it.code = protocol.CodeNotLeaderOrFollower; it.h == nil {
				reg := topic.Partition(part.Partition)
				it.leader = protocol.LeaderHint{ID: reg.Leader, Epoch: reg.LeaderEpoch}
			}
		}
	}
}

// answer sends what readAll left in the items. An incremental answer holds only
// the partitions that have something new.
func (p *pendingFetch) answer() {
	p.watch()
	topics, hints := p.choose()
	id, code := p.ctx.Finish(p.b.rt.Now().Mono)
	if code != protocol.CodeNone {
		p.releaseRegions()
		r := p.r
		p.Recycle()
		replyFetchError(r, code)
		return
	}
	body := server.NewFetchBody()
	body.Begin(p.r.Header.Version, protocol.FetchHead{SessionID: id, Topics: topics})
	for i := 0; i < len(p.items); {
		if !p.items[i].chosen {
			p.items[i].region.Release()
			i++
			continue
		}
		i = p.encodeTopic(body, i)
	}
	var endpoints []protocol.NodeEndpoint
	if hints && p.r.Header.Version >= 16 {
		endpoints = p.b.endpoints(p.r.Listener)
	}
	body.End(endpoints)
	body.Owner = p
	p.r.ReplyFetch(body)
}

// choose marks the items that the answer holds and counts its topics: runs of
// chosen items of one topic, since items come grouped as the client asked.
func (p *pendingFetch) choose() (topics int, hints bool) {
	var last *fetchItem
	for i := range p.items {
		it := &p.items[i]
		a := &it.answer
		it.chosen = p.ctx.Include(it.part, p.outcome(it))
		if !it.chosen {
			continue
		}
		if last == nil || !last.sameTopic(it) {
			topics++
		}
		last = it
		hints = hints || a.CurrentLeader.ID >= 0
	}
	return topics, hints
}

func (it *fetchItem) sameTopic(other *fetchItem) bool {
	return it.part.Topic == other.part.Topic && it.part.TopicID == other.part.TopicID
}

// encodeTopic writes the chosen items of one topic from the i-th on and returns
// the index behind them.
func (p *pendingFetch) encodeTopic(body *server.FetchBody, i int) int {
	first, n, end := &p.items[i], 0, i
	for ; end < len(p.items); end++ {
		it := &p.items[end]
		if it.chosen && !first.sameTopic(it) {
			break
		}
		if it.chosen {
			n++
		}
	}
	body.Topic(first.part.Topic, first.part.TopicID, n)
	for ; i < end; i++ {
		it := &p.items[i]
		switch {
		case !it.chosen:
			it.region.Release()
		case it.region.Len() > 0:
			it.h.Sent(it.region.Len(), p.replica.id >= 0)
			body.Partition(&it.answer, &it.region)
		default:
			body.Partition(&it.answer, nil)
		}
	}
	return end
}
