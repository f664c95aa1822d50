package fetcher

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// ID names a partition.
type ID = model.TopicIDPartition

// Config is what a Fetcher needs of the settings.
type Config struct {
	// Self is this broker.
	Self model.BrokerID
	// MinBytes, MaxBytes and ResponseBytes are replica.fetch.min.bytes,
	// replica.fetch.max.bytes and replica.fetch.response.max.bytes.
	MinBytes, MaxBytes, ResponseBytes int32
	// Wait is replica.fetch.wait.max.ms in nanoseconds.
	Wait model.Instant
	// Backoff is replica.fetch.backoff.ms in nanoseconds: the longest pause after
	// a failure. The first ones are shorter, see pause.
	Backoff model.Instant
}

// Kind says which fact an Input carries.
type Kind uint8

// The kinds of Input.
const (
	// KindAdd: fetch Input.Add from now on, instead of what was known of it.
	KindAdd Kind = iota + 1
	// KindRemove: don't fetch Input.ID any more.
	KindRemove
	// KindAnswered: Input.Answer came for the outstanding request.
	KindAnswered
	// KindProgress: a partition has done with a delivery, Input.Progress.
	KindProgress
	// KindTick: NextDeadline has passed.
	KindTick
	// KindAbandon: the delivery of Input.ID does not come back, and others of
	// the same answer, and the connection that brought it, may be stuck behind it.
	KindAbandon
)

// Input is one fact for Step. Only the field of its Kind is read.
type Input struct {
	Kind     Kind
	Add      Add
	ID       ID
	Answer   Answer
	Progress Progress
	// BrokerEpoch is this broker's incarnation; read for every kind.
	BrokerEpoch model.BrokerEpoch
}

// Add is a partition to fetch.
type Add struct {
	ID    ID
	Topic string
	partition.Follow
}

// Answer is what came for the outstanding request: a response to it, or an error
// if there is none. Bytes of the response are used until the deliveries that
// alias them are done.
type Answer struct {
	Msg kmsg.Response
	Err error
}

// Progress is what a partition made of a Delivery.
type Progress struct {
	ID     ID
	Serial uint64
	partition.Progress
}

// Delivery is what an answer brought for one partition. It goes to the
// partition's loop as a partition.Fetched.
type Delivery struct {
	ID ID
	// Serial comes back in the Progress.
	Serial    uint64
	Kind      partition.AnswerKind
	Asked     partition.Position
	Records   []byte
	Diverging model.OffsetAndEpoch
	// HighWatermark and LogStart are the leader's, for AnswerRecords.
	HighWatermark, LogStart model.Offset
	// LeaderStart and LeaderEnd are for AnswerBounds.
	LeaderStart, LeaderEnd model.Offset
}

// Output is what a Step leaves to be done. It is reused: handle it and call
// Reset before the next Step.
type Output struct {
	// Reconnect: Request goes over another connection. A request that is still
	// outstanding on the old one is given up, and its answer not told any more.
	Reconnect bool
	// Request is nil or what to send to the leader. It is answered by an Input of
	// KindAnswered; until then there is no other, but with Reconnect.
	Request kmsg.Request
	// Deliveries go to their partitions, in any order.
	Deliveries []Delivery
	Events     []Event
}

// Reset empties o and keeps its memory.
func (o *Output) Reset() {
	clear(o.Deliveries)
	clear(o.Events)
	o.Reconnect, o.Request = false, nil
	o.Deliveries, o.Events = o.Deliveries[:0], o.Events[:0]
}

// EventKind names a fact worth telling an operator.
type EventKind uint8

// The kinds of Event.
const (
	EventFailing    EventKind = iota + 1 // a request failed with Err or Code, the first of a row
	EventWorking                         // a request succeeded after failures
	EventFenced                          // the leader says that the partition's epoch is over
	EventOutOfRange                      // the partition is out of the leader's range
	EventRefused                         // the leader answered the partition with Code
	EventDamaged                         // twice what came at Position was no batch: Err
)

// String returns the name of the kind.
func (k EventKind) String() string {
	names := [...]string{"?", "failing", "working", "fenced", "out-of-range", "refused", "damaged"}
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

// Event is one such fact.
type Event struct {
	Kind     EventKind
	ID       ID
	Code     partition.Code
	Position partition.Position
	Err      error
}
