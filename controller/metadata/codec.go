package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
)

// frameVersion is the version of the frame around a list of records. A reader
// refuses any other: an entry that is only half understood must not be applied.
const frameVersion = 1

// recordVersion is the newest version of every record kind at the current
// metadata level. A newer one is refused, never skipped.
const recordVersion = 0

// ErrUnknownVersion is wrapped by decoding errors that a newer program would
// not have: the frame, a record kind or its version is not known here.
var ErrUnknownVersion = errors.New("unknown metadata version")

// ErrMalformed is wrapped by every other decoding error.
var ErrMalformed = errors.New("malformed metadata")

// Entry is what one entry of the metadata log carries.
type Entry struct {
	// Time is when the active controller made the entry, on its wall clock.
	Time    model.Timestamp
	Records []Record
}

// AppendEntry appends the encoded form of e to dst. Format:
// docs/formats/metadata.md.
func AppendEntry(dst []byte, e Entry) []byte {
	dst = append(dst, frameVersion)
	dst = binary.AppendVarint(dst, int64(e.Time))
	dst = binary.AppendUvarint(dst, uint64(len(e.Records)))
	c := coder{buf: dst, writing: true}
	for _, r := range e.Records {
		c.append(r)
	}
	return c.buf
}

// RecordSize returns the encoded size of r in bytes.
func RecordSize(r Record) int { return len(appendRecord(nil, r)) }

func appendRecord(dst []byte, r Record) []byte {
	c := coder{buf: dst, writing: true}
	c.append(r)
	return c.buf
}

// append encodes one record with its tag.
func (c *coder) append(r Record) {
	c.buf = binary.AppendUvarint(c.buf, uint64(r.Kind()))
	c.buf = binary.AppendUvarint(c.buf, recordVersion)
	// The body's length goes in front of it: leave room for one byte, which is
	// enough for most records, and move the body when it is not.
	at := len(c.buf)
	c.buf = append(c.buf, 0)
	r.code(c)
	size := len(c.buf) - at - 1
	if size < 0x80 {
		c.buf[at] = byte(size)
		return
	}
	var prefix [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(prefix[:], uint64(size))
	c.buf = append(c.buf, prefix[:n-1]...)
	copy(c.buf[at+n:], c.buf[at+1:at+1+size])
	copy(c.buf[at:], prefix[:n])
}

// DecodeEntry is the inverse of AppendEntry. It accepts exactly what
// AppendEntry writes; the result shares no memory with b.
func DecodeEntry(b []byte) (Entry, error) {
	c := coder{buf: b}
	if v := c.byte(); c.err == nil && v != frameVersion {
		return Entry{}, fmt.Errorf("frame version %d: %w", v, ErrUnknownVersion)
	}
	var e Entry
	code(&c, &e.Time)
	n := c.count(3)
	if c.err == nil {
		e.Records = make([]Record, 0, n)
	}
	for i := 0; i < n && c.err == nil; i++ {
		e.Records = append(e.Records, c.record())
	}
	if c.err == nil && len(c.buf) != 0 {
		c.fail("%d bytes behind the last record", len(c.buf))
	}
	if c.err != nil {
		return Entry{}, fmt.Errorf("metadata entry, byte %d of %d: %w", len(b)-len(c.buf), len(b), c.err)
	}
	return e, nil
}

// record decodes one record with its tag.
func (c *coder) record() Record {
	kind, version := c.uvarint(), c.uvarint()
	size := c.count(1)
	if c.err != nil {
		return nil
	}
	r := newRecord(kind)
	if r == nil || version > recordVersion {
		c.err = fmt.Errorf("record kind %d version %d: %w", kind, version, ErrUnknownVersion)
		return nil
	}
	rest := c.buf[size:]
	c.buf = c.buf[:size]
	if r.code(c); c.err == nil && len(c.buf) != 0 {
		c.fail("%d bytes behind the fields of record kind %d", len(c.buf), kind)
	}
	c.buf = rest
	return r
}

// newRecord returns an empty record of a kind, or nil.
func newRecord(kind uint64) Record {
	switch kind {
	case uint64(KindNoOp):
		return new(NoOp)
	case uint64(KindCluster):
		return new(Cluster)
	case uint64(KindVoters):
		return new(Voters)
	case uint64(KindFeature):
		return new(FeatureLevel)
	case uint64(KindRegisterBroker):
		return new(RegisterBroker)
	case uint64(KindUnregisterBroker):
		return new(UnregisterBroker)
	case uint64(KindBrokerChange):
		return new(BrokerChange)
	case uint64(KindBrokerEpochBump):
		return new(BrokerEpochBump)
	case uint64(KindTopic):
		return new(TopicRecord)
	case uint64(KindPartition):
		return new(PartitionRecord)
	case uint64(KindPartitionChange):
		return new(PartitionChange)
	case uint64(KindRemoveTopic):
		return new(RemoveTopic)
	case uint64(KindConfig):
		return new(ConfigRecord)
	case uint64(KindProducerIDs):
		return new(ProducerIDs)
	case uint64(KindReplicaEnd):
		return new(ReplicaEnd)
	}
	return nil
}

// EntryTime returns the time in an encoded entry without decoding the rest, or
// 0 if it is not readable.
func EntryTime(b []byte) model.Timestamp {
	c := coder{buf: b}
	if c.byte() != frameVersion {
		return 0
	}
	var t model.Timestamp
	code(&c, &t)
	return t
}
