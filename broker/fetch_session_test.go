package broker

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// session fetches within a fetch session (KIP-227).
type session struct {
	c     *rawConn
	v     int16
	id    int32
	epoch int32
}

func (s *session) fetch(topics ...kmsg.FetchRequestTopic) *kmsg.FetchResponse {
	s.c.t.Helper()
	req := fetchAll(topics...)
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	s.epoch++
	return s.c.fetched(req, s.v)
}

func (s *session) forget(topic string, parts ...int32) *kmsg.FetchResponse {
	s.c.t.Helper()
	req := fetchAll()
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	ft := kmsg.NewFetchRequestForgottenTopic()
	ft.Topic, ft.Partitions = topic, parts
	req.ForgottenTopics = append(req.ForgottenTopics, ft)
	s.epoch++
	return s.c.fetched(req, s.v)
}

// answered lists the partitions of an answer in its order.
func answered(r *kmsg.FetchResponse) (parts []int32) {
	for _, rt := range r.Topics {
		for _, p := range rt.Partitions {
			parts = append(parts, p.Partition)
		}
	}
	return parts
}

func TestFetchSessionIsIncremental(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("session", 4)
	producer := a.dial()
	for p := range int32(4) {
		producer.produce(name, p, plainBatch(1, 1000))
	}
	for _, v := range []int16{7, 9, 11, 12} {
		s := &session{c: a.dial(), v: v}
		full := s.fetch(fetchTopic(name, fetchPart(0, 1, 5000), fetchPart(1, 1, 5000), fetchPart(2, 1, 5000)))
		if full.ErrorCode != 0 || full.SessionID == 0 || len(answered(full)) != 3 {
			t.Fatalf("v%d full: %+v", v, full)
		}
		s.id = full.SessionID
		if r := s.fetch(); r.ErrorCode != 0 || r.SessionID != s.id || len(r.Topics) != 0 {
			t.Errorf("v%d nothing new: %+v", v, r)
		}
		// A partition with data is there, the others are not; it stays until it is read.
		r := s.fetch(fetchTopic(name, fetchPart(1, 0, 5000)))
		if got := answered(r); !slices.Equal(got, []int32{1}) || len(r.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Errorf("v%d one moved back: %v", v, got)
		}
		if got := answered(s.fetch()); !slices.Equal(got, []int32{1}) {
			t.Errorf("v%d again: %v", v, got)
		}
		s.fetch(fetchTopic(name, fetchPart(1, 1, 5000)))
		// Added and removed partitions.
		if got := answered(s.fetch(fetchTopic(name, fetchPart(3, 0, 5000)))); !slices.Equal(got, []int32{3}) {
			t.Errorf("v%d added: %v", v, got)
		}
		if r := s.forget(name, 3); r.ErrorCode != 0 || len(r.Topics) != 0 {
			t.Errorf("v%d forgotten: %+v", v, r)
		}
		// An error is told until it is gone.
		if r := s.fetch(fetchTopic(name, fetchPart(2, 99, 5000))); !slices.Equal(answered(r), []int32{2}) || r.Topics[0].Partitions[0].ErrorCode != protocol.CodeOffsetOutOfRange {
			t.Errorf("v%d out of range: %+v", v, r)
		}
		if r := s.fetch(); !slices.Equal(answered(r), []int32{2}) {
			t.Errorf("v%d still out of range: %+v", v, r)
		}
		if r := s.fetch(fetchTopic(name, fetchPart(2, 1, 5000))); !slices.Equal(answered(r), []int32{2}) || r.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Errorf("v%d the error cleared: %+v", v, r)
		}
		if r := s.fetch(); len(r.Topics) != 0 {
			t.Errorf("v%d quiet again: %+v", v, r)
		}
		// Forgetting all of them ends the session.
		if r := s.forget(name, 0, 1, 2); r.ErrorCode != 0 || r.SessionID != 0 {
			t.Errorf("v%d all forgotten: %+v", v, r)
		}
		if r := s.fetch(); r.ErrorCode != protocol.CodeFetchSessionIDNotFound || r.SessionID != 0 {
			t.Errorf("v%d after the end: %+v", v, r)
		}
	}
}

// TestFetchSessionTurns: partitions that gave data go behind the others, so that
// a small answer starves none; the full answer that begins a session moves none.
func TestFetchSessionTurns(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("turns", 3)
	c := a.dial()
	for p := range int32(3) {
		c.produce(name, p, plainBatch(1, 1000))
	}
	s := &session{c: c, v: 11}
	id, first := int32(0), []int32{}
	for turn := range 6 {
		req := fetchAll()
		if turn == 0 {
			req = fetchAll(fetchTopic(name, fetchPart(0, 0, 5000), fetchPart(1, 0, 5000), fetchPart(2, 0, 5000)))
		}
		req.MaxBytes, req.SessionID, req.SessionEpoch = 1, id, int32(turn)
		resp := s.c.fetched(req, 11)
		id = resp.SessionID
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				if len(p.RecordBatches) > 0 {
					first = append(first, p.Partition)
				}
			}
		}
	}
	if !slices.Equal(first, []int32{0, 0, 1, 2, 0, 1}) {
		t.Errorf("data came from %v", first)
	}
}

func TestFetchSessionErrors(t *testing.T) {
	a := newAPI(t)
	name, id := a.topic("errors", 1)
	open := func(v int16) *session {
		t.Helper()
		s := &session{c: a.dial(), v: v}
		ft := fetchTopic(name, fetchPart(0, 0, 1000))
		ft.TopicID = id
		r := s.fetch(ft)
		if r.ErrorCode != 0 || r.SessionID == 0 {
			t.Fatalf("%+v", r)
		}
		s.id = r.SessionID
		return s
	}
	refused := func(what string, s *session, want protocol.Code) {
		t.Helper()
		if r := s.fetch(); r.ErrorCode != want || r.SessionID != 0 || len(r.Topics) != 0 {
			t.Errorf("%s: %+v, want code %d", what, r, want)
		}
	}
	s := open(11)
	refused("unknown session", &session{c: s.c, v: 11, id: s.id ^ 0x5555, epoch: 1}, protocol.CodeFetchSessionIDNotFound)
	refused("epoch from the future", &session{c: s.c, v: 11, id: s.id, epoch: 7}, protocol.CodeInvalidFetchSessionEpoch)
	// A wrong epoch harms nothing: the right one goes on.
	if r := s.fetch(); r.ErrorCode != 0 || r.SessionID != s.id {
		t.Errorf("the right epoch after a wrong one: %+v", r)
	}
	s.epoch = 1
	refused("epoch repeated", s, protocol.CodeInvalidFetchSessionEpoch)
	// Another kind of topic naming.
	s = open(12)
	s.v = 13
	refused("ids in a session of names", s, protocol.CodeFetchSessionTopicIDError)
	s = open(13)
	s.v = 12
	refused("names in a session of ids", s, protocol.CodeFetchSessionTopicIDError)
	// Epoch -1 with an id: answered in full, and the session is over.
	s = open(11)
	last := &session{c: s.c, v: 11, id: s.id, epoch: -1}
	if r := last.fetch(fetchTopic(name, fetchPart(0, 0, 1000))); r.ErrorCode != 0 || r.SessionID != 0 || len(answered(r)) != 1 {
		t.Errorf("final fetch: %+v", r)
	}
	refused("after the final fetch", s, protocol.CodeFetchSessionIDNotFound)
	// Epoch 0 with an id replaces that session.
	s = open(11)
	again := &session{c: s.c, v: 11, id: s.id}
	r := again.fetch(fetchTopic(name, fetchPart(0, 0, 1000)))
	if r.ErrorCode != 0 || r.SessionID == 0 || r.SessionID == s.id {
		t.Errorf("replacing: %+v", r)
	}
	refused("the replaced one", s, protocol.CodeFetchSessionIDNotFound)
}

// TestFetchSessionTopicIsMadeAnew: a session by name goes on with the new topic
// of the name; one by id is told that the id is unknown. Apache Kafka remembers
// the name as well and says UNKNOWN_TOPIC_OR_PARTITION of the deleted topic and
// INCONSISTENT_TOPIC_ID once the name is taken again, see docs/decisions.
func TestFetchSessionTopicIsMadeAnew(t *testing.T) {
	a := newAPI(t)
	name, id := a.topic("anew", 1)
	producer := a.dial()
	producer.produce(name, 0, plainBatch(1, 100))
	byName, byID := &session{c: a.dial(), v: 12}, &session{c: a.dial(), v: 13}
	for _, s := range []*session{byName, byID} {
		ft := fetchTopic(name, fetchPart(0, 0, 1000))
		ft.TopicID = id
		s.id = s.fetch(ft).SessionID
	}
	producer.call(deleteTopic(6, name, model.NoTopicID), 6)
	eventually(t, "the topic is gone", func() bool {
		return producer.metadata(9, false, name).Topics[0].ErrorCode == protocol.CodeUnknownTopicOrPartition
	})
	if r := byName.fetch(); !slices.Equal(answered(r), []int32{0}) || r.Topics[0].Partitions[0].ErrorCode != protocol.CodeUnknownTopicOrPartition {
		t.Errorf("by name, deleted: %+v", r)
	}
	deleted, anew := protocol.CodeUnknownTopicID, protocol.CodeUnknownTopicID
	if a.kafka() {
		deleted, anew = protocol.CodeUnknownTopicOrPartition, protocol.CodeInconsistentTopicID
	}
	if r := byID.fetch(); !slices.Equal(answered(r), []int32{0}) || r.Topics[0].Partitions[0].ErrorCode != deleted {
		t.Errorf("by id, deleted: %+v", r)
	}
	a.topic("anew", 1)
	producer.produce(name, 0, plainBatch(1, 200))
	if r := byName.fetch(); !slices.Equal(answered(r), []int32{0}) || len(r.Topics[0].Partitions[0].RecordBatches) < 200 {
		t.Errorf("by name, made anew: %+v", r)
	}
	if r := byID.fetch(); !slices.Equal(answered(r), []int32{0}) || r.Topics[0].Partitions[0].ErrorCode != anew {
		t.Errorf("by id, made anew: %+v", r)
	}
}

// TestFetchSessionsAreBounded: beyond the slots a fetch is answered without a
// session, and nobody's session is lost for it.
func TestFetchSessionsAreBounded(t *testing.T) {
	a := newAPI(t, "max.incremental.fetch.session.cache.slots=3")
	if a.kafka() {
		t.Skip("needs a broker with three slots")
	}
	name, _ := a.topic("bounded", 1)
	c := a.dial()
	var open []*session
	for i := range 5 {
		s := &session{c: c, v: 11}
		r := s.fetch(fetchTopic(name, fetchPart(0, 0, 1000)))
		if r.ErrorCode != 0 || (r.SessionID != 0) != (i < 3) {
			t.Fatalf("session %d: id %d", i, r.SessionID)
		}
		if s.id = r.SessionID; s.id != 0 {
			open = append(open, s)
		}
	}
	for _, s := range open {
		if r := s.fetch(); r.ErrorCode != 0 || r.SessionID != s.id {
			t.Errorf("%+v", r)
		}
	}
}
