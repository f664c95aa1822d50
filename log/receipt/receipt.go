package receipt

import (
	"encoding/json"
	"time"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
)

// Cause says what took the bytes off the log.
type Cause string

// The causes.
const (
	// CrashTail: what stood behind the last whole batch after a crash.
	CrashTail Cause = "crash-tail"
	// UnfinishedCut: a cut that a crash had interrupted was finished.
	UnfinishedCut Cause = "unfinished-cut"
	// BelowLogStart: the log ended below its start; all of it had been deleted.
	BelowLogStart Cause = "below-log-start"
	// Divergence: the leader's log goes another way from there, and nothing that was
	// known to be committed is lost by following it.
	Divergence Cause = "divergence"
	// UncleanElection: as Divergence, but below the replica's own high watermark:
	// the leader was elected without having all that was committed.
	UncleanElection Cause = "unclean-election"
	// LeaderStart: the leader's log starts behind the end of this one.
	LeaderStart Cause = "leader-start"
	// Refill: a damaged or lost replica was filled anew from its leader.
	Refill Cause = "refill"
	// Repair: a person had the log cut where it was damaged (tidemark log repair).
	Repair Cause = "repair"
	// Unreadable: a small file that made no sense was replaced.
	Unreadable Cause = "unreadable-file"
)

// Receipt says what left a log. A field of a kind that doesn't apply is absent
// from its JSON. See docs/formats/receipts.md.
type Receipt struct {
	// ID counts the receipts of a node from 1.
	ID int64 `json:"id"`
	// Time is the node's wall clock, RFC 3339 in UTC with milliseconds.
	Time string `json:"time"`
	Node int32  `json:"node"`
	// Cause is one of the constants; Detail says more in words.
	Cause  Cause  `json:"cause"`
	Detail string `json:"detail,omitempty"`

	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	TopicID   string `json:"topicId,omitempty"`
	// Dir is the log directory.
	Dir string `json:"dir"`

	// Start and End bound the offsets that left, [Start, End).
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Batches and Records count what is whole, Bytes all.
	Batches int64 `json:"batches"`
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
	// Epochs are the leader epochs of the batches, with their first offsets.
	Epochs []Epoch `json:"epochs,omitempty"`
	// Producers are the idempotent producers of the batches; MoreProducers counts
	// the batches of those that are not listed.
	Producers     []Producer `json:"producers,omitempty"`
	MoreProducers int        `json:"moreProducers,omitempty"`
	// OpenTransactions are the producers of transactions that have no end among
	// the batches.
	OpenTransactions []int64 `json:"openTransactions,omitempty"`
	// HighWatermark is the replica's as it knew it last; BelowHighWatermark tells
	// that records below it left.
	HighWatermark      int64 `json:"highWatermark"`
	BelowHighWatermark bool  `json:"belowHighWatermark"`

	// Parts are where the bytes were, oldest first.
	Parts []Part `json:"parts"`
	// Kept is the directory of the copy, relative to the Store's; empty if there is
	// none, and NotKept says why.
	Kept    string `json:"kept,omitempty"`
	NotKept string `json:"notKept,omitempty"`
	// Again is the id of an earlier receipt for the same bytes, whose removal a
	// crash had prevented; 0 if there is none.
	Again int64 `json:"again,omitempty"`
}

// Epoch is a leader epoch and the first offset that left in it.
type Epoch struct {
	Epoch int32 `json:"epoch"`
	Start int64 `json:"start"`
}

// Producer is what left of one idempotent producer: the sequences of its first
// and last record, -1 if only control batches did.
type Producer struct {
	ID    int64 `json:"id"`
	Epoch int16 `json:"epoch"`
	First int32 `json:"firstSequence"`
	Last  int32 `json:"lastSequence"`
}

// Part is a range of bytes of one file.
type Part struct {
	// File is the name in the partition's directory.
	File     string `json:"file"`
	Position int64  `json:"position"`
	Bytes    int64  `json:"bytes"`
	// CRC32C is that of the bytes as they were read, in hexadecimal; empty if they
	// could not be.
	CRC32C string `json:"crc32c,omitempty"`
	// Name is that of the copy in the Kept directory.
	Name string `json:"name,omitempty"`
}

// timeFormat is that of Receipt.Time.
const timeFormat = "2006-01-02T15:04:05.000Z"

func formatTime(ms model.Timestamp) string {
	return time.UnixMilli(int64(ms)).UTC().Format(timeFormat)
}

// At returns Time, 0 if it makes no sense.
func (r *Receipt) At() model.Timestamp {
	t, err := time.Parse(timeFormat, r.Time)
	if err != nil {
		return 0
	}
	return model.Timestamp(t.UnixMilli())
}

func (r *Receipt) encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		return nil // there is nothing in it that has no JSON
	}
	return append(text, '\n')
}

// describe fills in what the removal says.
func (r *Receipt) describe(m *log.Removal) {
	r.Start, r.End, r.Batches, r.Records, r.Bytes = int64(m.Start), int64(m.End), m.Batches, m.Records, m.Bytes
	for _, e := range m.Epochs {
		r.Epochs = append(r.Epochs, Epoch{Epoch: int32(e.Epoch), Start: int64(e.Start)})
	}
	r.MoreProducers = m.MoreProducers
	for _, p := range m.Producers {
		r.Producers = append(r.Producers, Producer{ID: int64(p.ID), Epoch: int16(p.Epoch), First: int32(p.First), Last: int32(p.Last)})
		if p.Open {
			r.OpenTransactions = append(r.OpenTransactions, int64(p.ID))
		}
	}
}
