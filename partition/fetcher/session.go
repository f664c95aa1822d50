package fetcher

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
)

// session is the client's side of a fetch session: the leader remembers what was
// asked for, and a request says only what has changed. Source: KIP-227.
type session struct {
	id int32
	// epoch is that of the next request; 0 asks for a session with everything.
	epoch int32
	// full: the outstanding request lists everything.
	full bool
}

// reset has the next request begin a new session. The old one's id is sent along
// so that the leader can drop it, unless it doesn't know it.
func (s *session) reset(known bool) {
	s.epoch = 0
	if !known {
		s.id = 0
	}
}

// answered takes the session id of a good answer.
func (s *session) answered(id int32) {
	switch {
	case id == 0 || !s.full && id != s.id:
		s.id, s.epoch = 0, 0 // the leader has no room, or has dropped it
	case s.full:
		s.id, s.epoch = id, 1
	case s.epoch == math.MaxInt32:
		s.epoch = 1
	default:
		s.epoch++
	}
}

// fetch builds the next request.
func (f *Fetcher) fetch() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = int32(f.cfg.Self)
	req.ReplicaState.ID, req.ReplicaState.Epoch = int32(f.cfg.Self), int64(f.brokerEpoch)
	req.MinBytes, req.MaxBytes = f.cfg.MinBytes, f.cfg.ResponseBytes
	wait := f.cfg.Wait
	if f.counts[Applying] > 0 {
		wait = min(wait, holdMax)
	}
	req.MaxWaitMillis = int32(wait / 1e6)
	req.SessionID, req.SessionEpoch = f.session.id, f.session.epoch
	f.session.full = f.session.epoch == 0
	if f.session.full {
		f.askAll(req)
	} else {
		f.forget(req)
		f.askFresh(req)
	}
	return req
}

// askAll lists every partition that is to be fetched.
func (f *Fetcher) askAll(req *kmsg.FetchRequest) {
	f.compact()
	topics := topicIndex{}
	for _, p := range f.order {
		p.fresh, p.stale, p.sent = false, false, p.state == Fetching
		if p.sent {
			f.ask(req, topics, p)
		}
	}
	clear(f.fresh)
	clear(f.stale)
	f.fresh, f.stale = f.fresh[:0], f.stale[:0]
}

// askFresh lists the partitions of which the leader's session doesn't know what
// is to be asked.
func (f *Fetcher) askFresh(req *kmsg.FetchRequest) {
	topics := topicIndex{}
	for i, p := range f.fresh {
		f.fresh[i] = nil
		p.fresh = false
		if p.gone || p.state != Fetching || p.sent && p.asked == p.question() {
			continue
		}
		p.sent = true
		f.ask(req, topics, p)
	}
	f.fresh = f.fresh[:0]
}

// forget lists the partitions that the leader's session has and that are not to
// be fetched.
func (f *Fetcher) forget(req *kmsg.FetchRequest) {
	topics := topicIndex{}
	for i, p := range f.stale {
		f.stale[i] = nil
		p.stale = false
		if !p.sent || !p.gone && p.state == Fetching {
			continue
		}
		p.sent = false
		if next := f.parts[p.id]; next != nil && next != p && (next.sent || next.state == Fetching) {
			continue // replaced: to the leader the new one is the old one, changed
		}
		i, ok := topics[p.id.TopicID]
		if !ok {
			i = len(req.ForgottenTopics)
			topics[p.id.TopicID] = i
			t := kmsg.NewFetchRequestForgottenTopic()
			t.Topic, t.TopicID = p.topic, p.id.TopicID
			req.ForgottenTopics = append(req.ForgottenTopics, t)
		}
		t := &req.ForgottenTopics[i]
		t.Partitions = append(t.Partitions, p.id.Partition)
	}
	f.stale = f.stale[:0]
}

// topicIndex finds a topic in a request that is being built.
type topicIndex map[model.TopicID]int

// ask adds a partition to a request.
func (f *Fetcher) ask(req *kmsg.FetchRequest, topics topicIndex, p *part) {
	p.asked = p.question()
	i, ok := topics[p.id.TopicID]
	if !ok {
		i = len(req.Topics)
		topics[p.id.TopicID] = i
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = p.topic, p.id.TopicID
		req.Topics = append(req.Topics, t)
	}
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.PartitionMaxBytes = p.id.Partition, f.cfg.MaxBytes
	rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = int32(p.pos.LeaderEpoch), int32(p.pos.LastEpoch)
	rp.FetchOffset, rp.LogStartOffset = int64(p.pos.Offset), int64(p.logStart)
	rp.HighWatermark = int64(p.highWatermark)
	if p.asked.suspect {
		rp.UnknownTags.Set(DamageTag, nil)
	}
	t := &req.Topics[i]
	t.Partitions = append(t.Partitions, rp)
}
