package partition

import (
	"github.com/tidemark/tidemark/internal/model"
)

// WriteKind says which change of the log a Write asks for.
type WriteKind uint8

// The kinds of Write, in the order in which an executor would run them.
const (
	WriteNone     WriteKind = iota
	WriteTruncate           // cut the log's end to Offset
	WriteRestart            // empty the log and have it start at Offset
	WriteRefill             // WriteRestart, append Set, and raise the log start to Start
	WriteEpoch              // note that Epoch starts at Offset
	WriteLogStart           // raise the log start to Offset
	WriteAppend             // append Set, already stamped
	WriteRetain             // WriteLogStart; at the log's end a new segment is begun first
)

// Write is the one change of the log that a Step asks for. It is answered by an
// Input of KindWritten; until then the Partition makes no other.
type Write struct {
	Kind   WriteKind
	Offset model.Offset
	Start  model.Offset
	Epoch  model.LeaderEpoch
	// Set is one or more whole batches. It stays valid until the completion.
	Set []byte
}

// Cuts says whether the write takes something away. Such a write changes
// directories, so that an executor doesn't do it where it may not wait.
func (k WriteKind) Cuts() bool {
	return k == WriteTruncate || k == WriteRestart || k == WriteRefill
}

// Urgency says how soon a flush is wanted.
type Urgency uint8

// The urgencies.
const (
	FlushNone       Urgency = iota
	FlushBackground         // nobody waits
	FlushNow                // acknowledgements wait for it
)

// AlterPartition proposes a new ISR to the controller. Source: KIP-497, KIP-903.
type AlterPartition struct {
	// Token names the proposal; the answer and each retry carry it.
	Token          uint64
	LeaderEpoch    model.LeaderEpoch
	PartitionEpoch model.PartitionEpoch
	// ISR carries each member's broker epoch as captured when its offset was
	// observed; a retry keeps it.
	ISR []Member
}

// Member is one replica of a proposed ISR and its incarnation.
type Member struct {
	ID    model.BrokerID
	Epoch model.BrokerEpoch
}

// Output is what a Step leaves to be done. The slices are reused: an executor
// handles them and calls Reset before the next Step.
type Output struct {
	Write Write
	Flush Urgency
	// KeepStart asks to make the log start durable. It is answered by an Input of
	// KindStartKept; until then it is not asked again.
	KeepStart bool
	// Alter is nil or the proposal to send; it stays valid.
	Alter *AlterPartition
	// Follow is nil or whom to fetch from, or that there is nobody; the last one
	// counts.
	Follow *Follow
	// Produced, Fetched, Replicas and Deleted are answered and leave the
	// Partition.
	Produced []*Produce
	Fetched  []*Fetched
	Replicas []*ReplicaFetch
	Deleted  []*DeleteRecords
	// Woken are waiting fetches whose condition may hold now.
	Woken  []*FetchWait
	Events []Event
}

// Reset empties o and keeps its memory.
func (o *Output) Reset() {
	o.ResetAnswers()
	o.Write, o.Flush, o.Events = Write{}, FlushNone, o.Events[:0]
}

// ResetAnswers empties what is to be delivered: answers, wakes, Alter, Follow
// and KeepStart.
func (o *Output) ResetAnswers() {
	clear(o.Produced)
	clear(o.Fetched)
	clear(o.Replicas)
	clear(o.Deleted)
	clear(o.Woken)
	o.Produced, o.Replicas, o.Deleted = o.Produced[:0], o.Replicas[:0], o.Deleted[:0]
	o.Fetched, o.Woken = o.Fetched[:0], o.Woken[:0]
	o.Alter, o.Follow, o.KeepStart = nil, nil, false
}

// EventKind names a fact worth telling an operator or a trace.
type EventKind uint8

// The kinds of Event.
const (
	EventLeader       EventKind = iota + 1 // became leader
	EventFollower                          // became follower
	EventOffline                           // went offline; Code says why
	EventISRProposed                       // asked the controller for ISR
	EventISRCommitted                      // the cluster agreed on ISR
	EventISRRefused                        // the controller answered Code
	EventBelowHW                           // truncated below the high watermark, From → To
	EventAppendFailed                      // an append was refused by the disk and cut back
	EventLogStart                          // the log start rose, From → To
	EventTruncated                         // a follower cut its log, From → To
	EventCutOff                            // a leader refuses writes: it hears nobody
	EventRejoined                          // a leader takes writes again
)

// String returns the name of the kind.
func (k EventKind) String() string {
	names := [...]string{"?", "leader", "follower", "offline", "isr-proposed", "isr-committed",
		"isr-refused", "truncated-below-hw", "append-failed", "log-start", "truncated",
		"cut-off", "rejoined"}
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

// Event is one such fact with the numbers that belong to it.
type Event struct {
	Kind     EventKind
	Mark     Mark
	Code     Code
	From, To model.Offset
	ISR      []model.BrokerID
}
