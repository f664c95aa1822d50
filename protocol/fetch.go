package protocol

import (
	"encoding/binary"

	"github.com/tidemark/tidemark/internal/model"
)

// AbortedTxn tells a read_committed consumer which records to drop: those of
// the producer from FirstOffset to its next abort marker. Source: KIP-98.
type AbortedTxn struct {
	ProducerID  model.ProducerID
	FirstOffset model.Offset
}

// LeaderHint is the leader a client should turn to. Source: KIP-951, KIP-320.
type LeaderHint struct {
	ID    model.BrokerID
	Epoch model.LeaderEpoch
}

// NodeEndpoint is where a broker named by a LeaderHint is reached. Source:
// KIP-951.
type NodeEndpoint struct {
	ID   model.BrokerID
	Host string
	Port int32
	Rack string // "" is sent as null
}

// FetchPartition is one partition's part of a Fetch answer, but for its
// records. NewFetchPartition gives the values that mean "none".
type FetchPartition struct {
	Partition        int32
	Code             Code
	HighWatermark    model.Offset
	LastStableOffset model.Offset
	LogStartOffset   model.Offset // from version 5

	// Aborted is sent as null if ReadCommitted is false, else as a list, maybe
	// an empty one.
	Aborted       []AbortedTxn
	ReadCommitted bool

	PreferredReadReplica model.BrokerID       // from version 11
	Diverging            model.OffsetAndEpoch // from version 12; epoch and offset -1: none
	CurrentLeader        LeaderHint           // from version 12; both -1: none
	Snapshot             model.OffsetAndEpoch // from version 12; both -1: none
}

// NewFetchPartition returns a partition's answer with nothing in it: no error,
// no offsets, no hints.
func NewFetchPartition(partition int32) FetchPartition {
	return FetchPartition{
		Partition:            partition,
		HighWatermark:        model.NoOffset,
		LastStableOffset:     model.NoOffset,
		LogStartOffset:       model.NoOffset,
		PreferredReadReplica: model.NoLeader,
		Diverging:            model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch},
		CurrentLeader:        LeaderHint{ID: model.NoLeader, Epoch: model.NoEpoch},
		Snapshot:             model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch},
	}
}

// FetchHead is the part of a Fetch answer before its topics.
type FetchHead struct {
	ThrottleMillis int32
	Code           Code  // of the whole answer, from version 7
	SessionID      int32 // 0: no session
	Topics         int   // how many Topic calls follow
}

// Cut is a place in an encoded answer where record bytes go that the encoder
// was only told the length of.
type Cut struct {
	At  int // index into FetchEncoder.Bytes before which the records stand
	Len int // how many bytes of records
}

// FetchEncoder builds the body of a Fetch answer, versions 4 to 18, around
// record bytes that it never sees: it writes everything but the records into
// one buffer and remembers where they belong. The counts are given before the
// elements, so nothing is built twice and nothing is moved.
//
// The calls are Begin, then for each topic Topic and for each of its partitions
// Partition, then End. The zero value is ready for Begin, and an encoder may be
// used again with another Begin, which keeps its memory.
type FetchEncoder struct {
	version  int16
	flexible bool
	open     bool // a topic awaits its tags
	buf      []byte
	cuts     []Cut
	records  int
}

// Begin starts an answer of the given version. prefix bytes are left free at
// the start of the buffer for the frame size and the response header.
func (e *FetchEncoder) Begin(version int16, prefix int, h FetchHead) {
	e.version, e.flexible, e.open = version, version >= table[KeyFetch].Flexible, false
	e.cuts, e.records = e.cuts[:0], 0
	e.buf = append(e.buf[:0], make([]byte, prefix)...)
	e.i32(h.ThrottleMillis)
	if version >= 7 {
		e.i16(h.Code)
		e.i32(h.SessionID)
	}
	e.count(h.Topics)
}

// Topic starts a topic of so many partitions. Versions up to 12 send the name,
// later ones the id.
func (e *FetchEncoder) Topic(name string, id model.TopicID, partitions int) {
	e.closeTopic()
	if e.version >= 13 {
		e.buf = append(e.buf, id[:]...)
	} else {
		e.str(name)
	}
	e.count(partitions)
	e.open = true
}

// Partition adds a partition whose records take so many bytes; 0 is sent as an
// empty record set, not as null.
func (e *FetchEncoder) Partition(p *FetchPartition, records int) {
	e.i32(p.Partition)
	e.i16(p.Code)
	e.i64(int64(p.HighWatermark))
	e.i64(int64(p.LastStableOffset))
	if e.version >= 5 {
		e.i64(int64(p.LogStartOffset))
	}
	e.aborted(p)
	if e.version >= 11 {
		e.i32(int32(p.PreferredReadReplica))
	}
	e.size(records)
	if records > 0 {
		e.cuts = append(e.cuts, Cut{At: len(e.buf), Len: records})
		e.records += records
	}
	if e.flexible {
		e.partitionTags(p)
	}
}

func (e *FetchEncoder) aborted(p *FetchPartition) {
	if !p.ReadCommitted {
		e.nullCount()
		return
	}
	e.count(len(p.Aborted))
	for i := range p.Aborted {
		e.i64(int64(p.Aborted[i].ProducerID))
		e.i64(int64(p.Aborted[i].FirstOffset))
		e.noTags()
	}
}

// End finishes the answer. Endpoints are sent from version 16, and only if
// there are any.
func (e *FetchEncoder) End(endpoints []NodeEndpoint) {
	e.closeTopic()
	if !e.flexible {
		return
	}
	if e.version < 16 || len(endpoints) == 0 {
		e.buf = append(e.buf, 0)
		return
	}
	size := uvarintLen(len(endpoints) + 1)
	for i := range endpoints {
		size += endpoints[i].size()
	}
	e.buf = append(e.buf, 1, 0) // one tag: number 0
	e.uvarint(size)
	e.count(len(endpoints))
	for i := range endpoints {
		n := &endpoints[i]
		e.i32(int32(n.ID))
		e.str(n.Host)
		e.i32(n.Port)
		if n.Rack == "" {
			e.buf = append(e.buf, 0)
		} else {
			e.str(n.Rack)
		}
		e.buf = append(e.buf, 0)
	}
}

func (n *NodeEndpoint) size() int {
	size := 4 + uvarintLen(len(n.Host)+1) + len(n.Host) + 4 + 1 + 1
	if n.Rack != "" {
		size += uvarintLen(len(n.Rack)+1) - 1 + len(n.Rack)
	}
	return size
}

// Bytes returns what was encoded, the free prefix first, without the records;
// valid until the next Begin.
func (e *FetchEncoder) Bytes() []byte { return e.buf }

// Cuts returns the places of the records, in order.
func (e *FetchEncoder) Cuts() []Cut { return e.cuts }

// Size returns the length of the whole, the free prefix and the records
// included.
func (e *FetchEncoder) Size() int { return len(e.buf) + e.records }

// partitionTags writes the tagged fields of a partition: 0 diverging epoch, 1
// current leader, 2 snapshot id. Each is a struct of fixed size, its own empty
// tags included.
func (e *FetchEncoder) partitionTags(p *FetchPartition) {
	diverging := p.Diverging.Epoch != model.NoEpoch || p.Diverging.Offset != model.NoOffset
	leader := p.CurrentLeader.ID != model.NoLeader || p.CurrentLeader.Epoch != model.NoEpoch
	snapshot := p.Snapshot.Epoch != model.NoEpoch || p.Snapshot.Offset != model.NoOffset
	n := byte(0)
	for _, set := range [...]bool{diverging, leader, snapshot} {
		if set {
			n++
		}
	}
	e.buf = append(e.buf, n)
	if diverging {
		e.buf = append(e.buf, 0, 4+8+1)
		e.i32(int32(p.Diverging.Epoch))
		e.i64(int64(p.Diverging.Offset))
		e.buf = append(e.buf, 0)
	}
	if leader {
		e.buf = append(e.buf, 1, 4+4+1)
		e.i32(int32(p.CurrentLeader.ID))
		e.i32(int32(p.CurrentLeader.Epoch))
		e.buf = append(e.buf, 0)
	}
	if snapshot {
		e.buf = append(e.buf, 2, 8+4+1)
		e.i64(int64(p.Snapshot.Offset))
		e.i32(int32(p.Snapshot.Epoch))
		e.buf = append(e.buf, 0)
	}
}

func (e *FetchEncoder) closeTopic() {
	if e.open {
		e.noTags()
		e.open = false
	}
}

func (e *FetchEncoder) noTags() {
	if e.flexible {
		e.buf = append(e.buf, 0)
	}
}

func (e *FetchEncoder) i16(v int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }
func (e *FetchEncoder) i32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }
func (e *FetchEncoder) i64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

func (e *FetchEncoder) uvarint(v int) { e.buf = binary.AppendUvarint(e.buf, uint64(v)) }

func (e *FetchEncoder) count(n int) { e.size(n) }

// size writes the length of an array or of bytes.
func (e *FetchEncoder) size(n int) {
	if e.flexible {
		e.uvarint(n + 1)
		return
	}
	e.i32(int32(n))
}

func (e *FetchEncoder) nullCount() {
	if e.flexible {
		e.buf = append(e.buf, 0)
		return
	}
	e.i32(-1)
}

func (e *FetchEncoder) str(s string) {
	if e.flexible {
		e.uvarint(len(s) + 1)
	} else {
		e.i16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

func uvarintLen(v int) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}
