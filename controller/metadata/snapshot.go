package metadata

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// SnapshotSuffix ends the name of a snapshot file. Source: KIP-630.
const SnapshotSuffix = ".checkpoint"

// snapshotVersion is the version of header and footer.
const snapshotVersion = 0

// snapshotChunk is how many records one batch of a snapshot holds at most.
const snapshotChunk = 512

// SnapshotHeader is what a snapshot says of itself beside the image.
type SnapshotHeader struct {
	// At is the offset and term of the last entry in the image.
	At   model.OffsetAndEpoch
	Time model.Timestamp
	// ConfState is the voter configuration at At, as the consensus library
	// encodes it. It is only valid together with At: kept apart from it, a
	// restart would apply a change twice or not at all.
	ConfState []byte
	// BootstrapHash is the digest of the voter set that the cluster was
	// bootstrapped with; members that disagree refuse each other.
	BootstrapHash Hash
}

// SnapshotName returns the file name of the snapshot up to and including at:
// the exclusive end offset and the term. Source: KIP-630.
func SnapshotName(at model.OffsetAndEpoch) string {
	return fmt.Sprintf("%020d-%010d%s", at.Offset.Next(), at.Epoch, SnapshotSuffix)
}

// ParseSnapshotName is the inverse of SnapshotName; false for any other name.
func ParseSnapshotName(name string) (at model.OffsetAndEpoch, ok bool) {
	stem, ok := strings.CutSuffix(name, SnapshotSuffix)
	if !ok || len(stem) != 31 || stem[20] != '-' {
		return at, false
	}
	end, err1 := strconv.ParseUint(stem[:20], 10, 63)
	epoch, err2 := strconv.ParseUint(stem[21:], 10, 31)
	if err1 != nil || err2 != nil || end == 0 {
		return at, false
	}
	return model.OffsetAndEpoch{Offset: model.Offset(end) - 1, Epoch: model.LeaderEpoch(epoch)}, true
}

// Records yields the records that make the image from an empty one, in an order
// that depends on the content only. They are what the hash sums up.
func (m *Image) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		_ = m.clusterRecords(yield) && m.topicRecords(yield) && m.configRecords(yield)
	}
}

func (m *Image) clusterRecords(yield func(Record) bool) bool {
	if m.clusterID != "" && !yield(&Cluster{ID: m.clusterID}) {
		return false
	}
	if len(m.voters) > 0 && !yield(&Voters{Voters: m.voters}) {
		return false
	}
	for _, f := range m.features {
		if !yield(&FeatureLevel{Feature: f}) {
			return false
		}
	}
	for _, b := range m.brokers {
		if !yield(b.record()) {
			return false
		}
	}
	if m.producers.Next > 0 {
		p := m.producers
		return yield(&p)
	}
	return true
}

func (m *Image) topicRecords(yield func(Record) bool) bool {
	for t := range m.Topics() {
		if !yield(&TopicRecord{Name: t.Name, ID: t.ID}) {
			return false
		}
		for i, p := range t.Partitions {
			if !yield(&PartitionRecord{TopicID: t.ID, Partition: int32(i), PartitionRegistration: *p}) {
				return false
			}
		}
	}
	for k, end := range m.ends.all() {
		if !yield(k.record(end)) {
			return false
		}
	}
	return true
}

func (m *Image) configRecords(yield func(Record) bool) bool {
	for res, settings := range m.configs.all() {
		for _, k := range sortedKeys(settings) {
			v := settings[k]
			if !yield(&ConfigRecord{Resource: res, Key: k, Value: &v}) {
				return false
			}
		}
	}
	return true
}

// AppendSnapshot appends the snapshot of m: a header, the records in chunks, a
// footer with the image's hash; each a record batch of its own.
func AppendSnapshot(dst []byte, h SnapshotHeader, m *Image) []byte {
	c := coder{writing: true}
	h.code(&c)
	b := Batch{Epoch: h.At.Epoch, Time: h.Time, Control: ControlSnapshotHeader, Value: c.buf}
	dst = AppendBatch(dst, b)
	var chunk []Record
	total := 0
	flush := func() {
		if len(chunk) == 0 {
			return
		}
		b.Offset, b.Control = b.Offset.Next(), 0
		b.Value = AppendEntry(nil, Entry{Time: h.Time, Records: chunk})
		dst = AppendBatch(dst, b)
		total, chunk = total+len(chunk), chunk[:0]
	}
	for r := range m.Records() {
		if chunk = append(chunk, r); len(chunk) == snapshotChunk {
			flush()
		}
	}
	flush()
	f := snapshotFooter{records: int64(total), hash: m.Hash()}
	c = coder{writing: true}
	f.code(&c)
	b.Offset, b.Control, b.Value = b.Offset.Next(), ControlSnapshotFooter, c.buf
	return AppendBatch(dst, b)
}

// snapshotFooter closes a snapshot; without it the file is incomplete.
type snapshotFooter struct {
	records int64
	hash    Hash
}

func (f *snapshotFooter) code(c *coder) {
	codeVersion(c)
	code(c, &f.records)
	c.uuid((*[16]byte)(&f.hash))
}

func (h *SnapshotHeader) code(c *coder) {
	codeVersion(c)
	code(c, &h.At.Offset)
	code(c, &h.At.Epoch)
	code(c, &h.Time)
	conf := string(h.ConfState)
	c.str(&conf)
	h.ConfState = []byte(conf)
	c.uuid((*[16]byte)(&h.BootstrapHash))
}

func codeVersion(c *coder) {
	v := int16(snapshotVersion)
	if code(c, &v); v != snapshotVersion && c.err == nil {
		c.err = fmt.Errorf("snapshot version %d: %w", v, ErrUnknownVersion)
	}
}

// ReadSnapshot is the inverse of AppendSnapshot. It accepts whole snapshots
// only: every CRC, the offsets, the number of records and the hash must be
// right. The result shares no memory with b.
func ReadSnapshot(b []byte) (SnapshotHeader, *Image, error) {
	var h SnapshotHeader
	var f snapshotFooter
	e := NewEdit(Empty())
	state, records := ControlSnapshotHeader, 0
	offset := model.Offset(0)
	it := record.NewIter(b)
	for it.Next() {
		bt, err := ParseBatch(it.Batch())
		if err != nil {
			return h, nil, fmt.Errorf("snapshot, byte %d: %w", it.Pos(), err)
		}
		switch {
		case bt.Offset != offset:
			err = fmt.Errorf("offset %d, want %d: %w", bt.Offset, offset, ErrMalformed)
		case state == ControlSnapshotHeader && bt.Control == ControlSnapshotHeader:
			err, state = decode(bt.Value, h.code), 0
			if err == nil && (h.At.Offset < 0 || h.At.Epoch < 0) {
				err = fmt.Errorf("snapshot up to %s: %w", h.At, ErrMalformed)
			}
		case state == 0 && bt.Control == 0:
			var n int
			n, err = applyChunk(e, h.At, bt.Value)
			records += n
		case state == 0 && bt.Control == ControlSnapshotFooter:
			err, state = decode(bt.Value, f.code), ControlSnapshotFooter
		default:
			err = fmt.Errorf("batch of type %d out of place: %w", bt.Control, ErrMalformed)
		}
		if err != nil {
			return h, nil, fmt.Errorf("snapshot, byte %d: %w", it.Pos(), err)
		}
		offset = offset.Next()
	}
	if it.Err() != nil {
		return h, nil, fmt.Errorf("snapshot: %w", it.Err())
	}
	if it.Rest() != 0 || state != ControlSnapshotFooter {
		return h, nil, fmt.Errorf("snapshot ends early, %d bytes behind byte %d: %w", it.Rest(), it.Pos(), ErrMalformed)
	}
	m, _ := e.Done()
	m.at = h.At // also when there was no record at all
	if f.records != int64(records) || f.hash != m.Hash() {
		return h, nil, fmt.Errorf("snapshot at %s: %d records with hash %s, footer says %d and %s: %w",
			h.At, records, m.Hash(), f.records, f.hash, ErrMalformed)
	}
	return h, m, nil
}

// decode reads one control value completely.
func decode(b []byte, fields func(*coder)) error {
	c := coder{buf: b}
	if fields(&c); c.err == nil && len(c.buf) != 0 {
		c.fail("%d bytes behind the last field", len(c.buf))
	}
	return c.err
}

func applyChunk(e *Edit, at model.OffsetAndEpoch, value []byte) (int, error) {
	entry, err := DecodeEntry(value)
	if err != nil {
		return 0, err
	}
	return len(entry.Records), e.Apply(at, entry.Records)
}

// SnapshotDelta returns the delta of an image that was read from a snapshot, for
// those who had followed old: everything that differs, marked so that absence is
// not taken for removal.
func SnapshotDelta(old, m *Image) *Delta {
	d := &Delta{From: old.At(), To: m.At(), Snapshot: true, Features: true, ProducerIDs: true, Voters: true}
	for t := range m.Topics() {
		td := TopicDelta{Old: old.TopicByID(t.ID), New: t}
		for i, p := range t.Partitions {
			if td.Old == nil || td.Old.Partition(int32(i)) == nil || td.Old.Partitions[i].sum != p.sum {
				td.Partitions = append(td.Partitions, int32(i))
			}
		}
		if td.Old == nil || len(td.Partitions) > 0 {
			d.Topics = append(d.Topics, td)
		}
	}
	for res := range m.ConfigResources() {
		d.Configs = append(d.Configs, res)
	}
	for res := range old.ConfigResources() {
		if _, kept := m.configs.get(res); !kept {
			d.Configs = append(d.Configs, res)
		}
	}
	for _, b := range m.Brokers() {
		d.Brokers = append(d.Brokers, b.ID)
	}
	for _, b := range old.Brokers() {
		if m.Broker(b.ID) == nil {
			d.Brokers = append(d.Brokers, b.ID)
		}
	}
	return d
}
