package producer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// The snapshot's layout, all numbers big-endian: version, CRC-32C of all that
// follows it, count, entries.
const (
	snapshotVersion    = 1
	snapshotCRCPos     = 2
	snapshotBodyPos    = 6
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SnapshotError says why bytes are not a producer snapshot.
type SnapshotError struct {
	// Pos is the offset in bytes of what is wrong.
	Pos int
	Why string
}

// Error implements error.
func (e *SnapshotError) Error() string {
	return fmt.Sprintf("producer snapshot: at byte %d: %s", e.Pos, e.Why)
}

func badSnapshot(pos int, format string, args ...any) error {
	return &SnapshotError{Pos: pos, Why: fmt.Sprintf(format, args...)}
}

// Marshal appends the snapshot to dst, producers in the order of their ids.
// Only the latest batch of each is part of it, so that after a restart older
// batches are known again only if the log behind the snapshot holds them.
func (m *StateManager) Marshal(dst []byte) []byte {
	start := len(dst)
	dst = slices.Grow(dst, snapshotHeaderSize+len(m.producers)*snapshotEntrySize)
	be := binary.BigEndian
	dst = be.AppendUint16(dst, snapshotVersion)
	dst = be.AppendUint32(dst, 0)
	dst = be.AppendUint32(dst, uint32(len(m.producers)))
	for _, id := range m.sortedIDs() {
		e := m.producers[id]
		var delta int32
		if e.count > 0 {
			delta = e.batches[e.count-1].OffsetDelta
		}
		dst = be.AppendUint64(dst, uint64(e.ProducerID))
		dst = be.AppendUint16(dst, uint16(e.Epoch))
		dst = be.AppendUint32(dst, uint32(e.LastSeq()))
		dst = be.AppendUint64(dst, uint64(e.LastOffset()))
		dst = be.AppendUint32(dst, uint32(delta))
		dst = be.AppendUint64(dst, uint64(e.LastTimestamp))
		dst = be.AppendUint32(dst, uint32(e.CoordinatorEpoch))
		dst = be.AppendUint64(dst, uint64(e.TxnFirstOffset))
	}
	crc := crc32.Checksum(dst[start+snapshotBodyPos:], castagnoli)
	be.PutUint32(dst[start+snapshotCRCPos:], crc)
	return dst
}

// Unmarshal replaces the producers and transactions by those of a snapshot; on
// an error, a *SnapshotError, nothing changes. MapEnd stays as it is: the
// snapshot doesn't know its offset, the file's name does, so that the caller
// passes it to Reset first.
func (m *StateManager) Unmarshal(b []byte) error {
	entries, err := ReadSnapshot(b)
	if err != nil {
		return err
	}
	clear(m.producers)
	m.txns.reset()
	for i := range entries {
		e := entries[i]
		m.put(&e)
		if e.HasOpenTxn() {
			m.txns.open = append(m.txns.open, openTxn{first: e.TxnFirstOffset, id: e.ProducerID})
		}
	}
	slices.SortFunc(m.txns.open, func(a, b openTxn) int { return cmp.Compare(a.first, b.first) })
	return nil
}

// ReadSnapshot decodes a snapshot into its entries, in the order of the file.
// The error is a *SnapshotError; what is returned beside it are the entries
// that can still be made out, for a reader of damaged files and nobody else.
func ReadSnapshot(b []byte) ([]Entry, error) {
	be := binary.BigEndian
	if len(b) < snapshotHeaderSize {
		return nil, badSnapshot(0, "%d bytes, a header has %d", len(b), snapshotHeaderSize)
	}
	if v := be.Uint16(b); v != snapshotVersion {
		return nil, badSnapshot(0, "version %d, want %d", v, snapshotVersion)
	}
	var first error
	stored := be.Uint32(b[snapshotCRCPos:])
	if got := crc32.Checksum(b[snapshotBodyPos:], castagnoli); got != stored {
		first = badSnapshot(snapshotCRCPos, "crc is %08x, bytes hash to %08x", stored, got)
	}
	body := b[snapshotHeaderSize:]
	count := int64(int32(be.Uint32(b[snapshotBodyPos:])))
	if whole := int64(len(body) / snapshotEntrySize); count < 0 || count*snapshotEntrySize != int64(len(body)) {
		first = cmp.Or(first, badSnapshot(snapshotBodyPos,
			"%d entries of %d bytes in %d bytes", count, snapshotEntrySize, len(body)))
		count = whole
	}
	entries := make([]Entry, 0, count)
	seen := make(map[model.ProducerID]struct{}, count)
	for i := range int(count) {
		pos := snapshotHeaderSize + i*snapshotEntrySize
		e, err := readEntry(b[pos:pos+snapshotEntrySize], pos)
		if _, twice := seen[e.ProducerID]; err == nil && twice {
			err = badSnapshot(pos, "producer %d is listed twice", e.ProducerID)
		}
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		seen[e.ProducerID] = struct{}{}
		entries = append(entries, e)
	}
	return entries, first
}

func readEntry(b []byte, pos int) (Entry, error) {
	be := binary.BigEndian
	e := newEntry(model.ProducerID(be.Uint64(b)))
	e.Epoch = model.ProducerEpoch(be.Uint16(b[8:]))
	last := model.Sequence(be.Uint32(b[10:]))
	offset := model.Offset(be.Uint64(b[14:]))
	delta := int32(be.Uint32(b[22:]))
	e.LastTimestamp = model.Timestamp(be.Uint64(b[26:]))
	e.CoordinatorEpoch = int32(be.Uint32(b[34:]))
	e.TxnFirstOffset = model.Offset(be.Uint64(b[38:]))
	switch {
	case e.ProducerID < 0:
		return e, badSnapshot(pos, "producer id %d is negative", e.ProducerID)
	case e.Epoch < model.NoProducerEpoch:
		return e, badSnapshot(pos+8, "epoch %d of producer %d is negative", e.Epoch, e.ProducerID)
	case last < model.NoSequence:
		return e, badSnapshot(pos+10, "last sequence %d of producer %d is negative", last, e.ProducerID)
	case offset < model.NoOffset:
		return e, badSnapshot(pos+14, "last offset %d of producer %d is negative", offset, e.ProducerID)
	case delta < 0 || offset != model.NoOffset && model.Offset(delta) > offset:
		return e, badSnapshot(pos+22, "offset delta %d of producer %d at last offset %d", delta, e.ProducerID, offset)
	case e.TxnFirstOffset < model.NoOffset:
		return e, badSnapshot(pos+38, "transaction of producer %d begins at %d", e.ProducerID, e.TxnFirstOffset)
	}
	if offset == model.NoOffset {
		return e, nil
	}
	first := model.NoSequence
	if last != model.NoSequence {
		first = last.Add(-delta)
	}
	e.push(BatchMeta{FirstSeq: first, LastSeq: last, LastOffset: offset, OffsetDelta: delta, Timestamp: e.LastTimestamp})
	return e, nil
}
