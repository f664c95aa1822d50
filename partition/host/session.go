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

	// quiet is set while a request is answered: there was nothing to tell, and
	// watch will say when there is.
	quiet bool
	// taken: it is among the Partitions of the request that is being answered.
	taken bool
	// leased: the leader has granted the session's lease, and not ended it as far
	// as the session has looked.
	leased bool
	// turn is the partition's place in the order in which they are read.
	turn  uint64
	watch watch
}

// sessionKey names a partition within a session.
type sessionKey struct {
	topic     string
	id        model.TopicID
	partition int32
}

func (p *FetchPartition) key() sessionKey { return sessionKey{p.Topic, p.TopicID, p.Partition} }

// Turn orders a session's partitions: those with a lower one are read first.
func (p *FetchPartition) Turn() uint64 { return p.turn }

// SetLeased notes the verdict on a follower's fetch: whether the partition has
// taken the session's watch as a lease.
func (p *FetchPartition) SetLeased(is bool) { p.leased = is }

// Leased says whether the partition still holds the lease, as far as More knows.
func (p *FetchPartition) Leased() bool { return p.leased }

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
	// Lacking: a follower has said that it doesn't know this high watermark or log
	// start, which is told until it does. That it was told once counts for nothing:
	// it uses neither of an answer by which it has to cut its log, nor of one that
	// its disk refuses.
	Lacking bool
	// AtEnd: there was nothing to read, and the partition's watch is told when
	// there is; a follower has, beside, a lease.
	AtEnd bool
}

// resting says whether the partition need not be looked at again until its watch
// says so.
func (p *FetchPartition) resting(o *FetchOutcome) bool {
	return o.AtEnd && o.Code == 0 && o.Bytes == 0 && !o.Diverging && !o.Redirected && !o.Lacking
}

// hasNews says what news would, and remembers nothing.
func (p *FetchPartition) hasNews(o *FetchOutcome) bool {
	return o.Bytes > 0 || o.Diverging || o.Redirected || o.Lacking || o.Code != 0 ||
		p.sentHighWatermark != o.HighWatermark || p.sentLogStart != o.LogStart
}

// news says whether the client must be told, and remembers what it is told. An
// error forgets the high watermark, so that the partition is sent once more when
// the error has cleared. The last stable offset alone is no news.
func (p *FetchPartition) news(o *FetchOutcome) bool {
	told := o.Bytes > 0 || o.Diverging || o.Redirected || o.Lacking
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
	// terms are those of the last request: others make every partition worth a
	// look.
	terms fetchTerms

	parts map[sessionKey]*FetchPartition
	turns uint64 // given out so far

	news news
}

// fetchTerms are what a request says beside its partitions that decides what
// each of them is answered.
type fetchTerms struct {
	version   int16
	isolation int8
	replica   model.BrokerID
	epoch     model.BrokerEpoch
	rack      string
}

func termsOf(r *kmsg.FetchRequest) fetchTerms {
	t := fetchTerms{version: r.Version, isolation: r.IsolationLevel, replica: model.BrokerID(r.ReplicaID), rack: r.Rack}
	if r.Version >= 15 {
		t.replica, t.epoch = model.BrokerID(r.ReplicaState.ID), model.BrokerEpoch(r.ReplicaState.Epoch)
	}
	return t
}

func (s *fetchSession) add(p *FetchPartition) {
	s.parts[p.key()] = p
	p.watch.part, p.watch.news = p, &s.news
	s.moveToEnd(p)
	s.news.put(p)
}

func (s *fetchSession) remove(k sessionKey) {
	if p := s.parts[k]; p != nil {
		s.news.forget(p)
		delete(s.parts, k)
	}
}

// moveToEnd has the partition read last next time: others get their turn.
func (s *fetchSession) moveToEnd(p *FetchPartition) {
	s.turns++
	p.turn = s.turns
}

// update takes an incremental request's changes.
func (s *fetchSession) update(r *kmsg.FetchRequest) {
	if t := termsOf(r); t != s.terms {
		s.terms = t
		for _, p := range s.parts { // order-free: they are sorted when taken
			s.news.put(p)
		}
	}
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
			} else {
				s.news.named(p)
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
