package host

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/fetcher"
)

// FetchPartition is one partition of a fetch: what the client asked last.
type FetchPartition struct {
	// Topic is the name, empty when the request names topics by id.
	Topic     string
	TopicID   model.TopicID
	Partition int32

	Offset       model.Offset
	CurrentEpoch model.LeaderEpoch
	LastEpoch    model.LeaderEpoch
	// LogStart is the follower's log start, -1 from a consumer.
	LogStart model.Offset
	// HighWatermark is the one that a follower knows, -1 if none; the greatest
	// number if the request can't say (KIP-1166).
	HighWatermark model.Offset
	MaxBytes      int32
	// Suspect: a follower says that what came at Offset was no batch, twice.
	Suspect bool

	// What the client was told last; -1 when nothing, or an error.
	sentHighWatermark model.Offset
	sentLogStart      model.Offset

	prev, next *FetchPartition
}

// sessionKey names a partition within a session.
type sessionKey struct {
	topic     string
	id        model.TopicID
	partition int32
}

func (p *FetchPartition) key() sessionKey { return sessionKey{p.Topic, p.TopicID, p.Partition} }

// ask takes over what a request says about the partition.
func (p *FetchPartition) ask(r *kmsg.FetchRequestTopicPartition) {
	p.Offset, p.MaxBytes = model.Offset(r.FetchOffset), r.PartitionMaxBytes
	p.CurrentEpoch, p.LastEpoch = model.LeaderEpoch(r.CurrentLeaderEpoch), model.LeaderEpoch(r.LastFetchedEpoch)
	p.LogStart, p.HighWatermark = model.Offset(r.LogStartOffset), model.Offset(r.HighWatermark)
	p.Suspect = false
	if r.UnknownTags.Len() > 0 {
		r.UnknownTags.Each(func(tag uint32, _ []byte) { p.Suspect = p.Suspect || tag == fetcher.DamageTag })
	}
}

// FetchOutcome is what of a partition's answer decides whether an incremental
// response must hold it.
type FetchOutcome struct {
	Code          Code
	HighWatermark model.Offset
	LogStart      model.Offset
	// Bytes is the size of the records.
	Bytes int
	// Diverging and Redirected (a preferred read replica) are always told.
	Diverging, Redirected bool
}

// news says whether the client must be told, and remembers what it is told. An
// error forgets the high watermark, so that the partition is sent once more when
// the error has cleared. The last stable offset alone is no news.
func (p *FetchPartition) news(o *FetchOutcome) bool {
	told := o.Bytes > 0 || o.Diverging || o.Redirected
	if p.sentHighWatermark != o.HighWatermark {
		p.sentHighWatermark, told = o.HighWatermark, true
	}
	if p.sentLogStart != o.LogStart {
		p.sentLogStart, told = o.LogStart, true
	}
	if o.Code != 0 {
		p.sentHighWatermark, told = model.NoOffset, true
	}
	return told
}

// fetchSession is what the broker remembers of one client's fetches, so that it
// need not repeat them. Source: KIP-227.
type fetchSession struct {
	id int32
	// epoch is what the next incremental request must carry.
	epoch int32
	// privileged sessions are followers'; consumers can't push them out.
	privileged bool
	byID       bool // topics are named by id (Fetch v13 and later)
	created    model.Instant
	used       model.Instant
	// busy: a request of the session is being answered.
	busy bool

	parts       map[sessionKey]*FetchPartition
	first, last *FetchPartition // the order in which they are read
}

func (s *fetchSession) add(p *FetchPartition) {
	p.prev, p.next = s.last, nil
	if s.last == nil {
		s.first = p
	} else {
		s.last.next = p
	}
	s.last = p
	s.parts[p.key()] = p
}

func (s *fetchSession) unlink(p *FetchPartition) {
	if p.prev == nil {
		s.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		s.last = p.prev
	} else {
		p.next.prev = p.prev
	}
}

func (s *fetchSession) remove(k sessionKey) {
	if p := s.parts[k]; p != nil {
		s.unlink(p)
		delete(s.parts, k)
	}
}

// moveToEnd has the partition read last next time: others get their turn.
func (s *fetchSession) moveToEnd(p *FetchPartition) {
	if s.last != p {
		s.unlink(p)
		s.add(p)
	}
}

// update takes an incremental request's changes.
func (s *fetchSession) update(r *kmsg.FetchRequest) {
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			k := sessionKey{t.Topic, t.TopicID, t.Partitions[j].Partition}
			if s.byID {
				k.topic = ""
			}
			p := s.parts[k]
			if p == nil {
				p = newFetchPartition(k)
				s.add(p)
			}
			p.ask(&t.Partitions[j])
		}
	}
	for i := range r.ForgottenTopics {
		t := &r.ForgottenTopics[i]
		for _, n := range t.Partitions {
			k := sessionKey{t.Topic, t.TopicID, n}
			if s.byID {
				k.topic = ""
			}
			s.remove(k)
		}
	}
}

func newFetchPartition(k sessionKey) *FetchPartition {
	return &FetchPartition{
		Topic: k.topic, TopicID: k.id, Partition: k.partition,
		sentHighWatermark: model.NoOffset, sentLogStart: model.NoOffset,
	}
}

// nextSessionEpoch wraps to 1: 0 asks for a new session.
func nextSessionEpoch(e int32) int32 {
	if e == math.MaxInt32 {
		return 1
	}
	return e + 1
}
