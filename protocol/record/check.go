package record

import "fmt"

// CorruptError says why bytes are not a batch. Pos is the position of the
// batch in the set that was read, 0 for a batch on its own.
type CorruptError struct {
	Pos int64
	Why string
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("record: corrupt batch at %d: %s", e.Pos, e.Why)
}

func corrupt(pos int64, format string, args ...any) error {
	return &CorruptError{Pos: pos, Why: fmt.Sprintf(format, args...)}
}

// CheckHeader checks the header of one whole batch from a disk or a peer: the
// fields that the CRC covers and those that it doesn't. It reads no record and
// needs no CRC to be right. A batch that compaction has emptied passes. The
// error is a *CorruptError.
func (b Batch) CheckHeader() error { return b.checkHeaderAt(0) }

func (b Batch) checkHeaderAt(pos int64) error {
	if len(b) < HeaderSize {
		return corrupt(pos, "%d bytes, a header has %d", len(b), HeaderSize)
	}
	switch {
	case b.Magic() != Magic:
		return corrupt(pos, "magic %d, want %d", b.Magic(), Magic)
	case SizeOf(b) != int64(len(b)):
		return corrupt(pos, "length field says %d bytes, there are %d", SizeOf(b), len(b))
	case b.BaseOffset() < 0:
		return corrupt(pos, "base offset %d is negative", b.BaseOffset())
	case b.LastOffsetDelta() < 0:
		return corrupt(pos, "last offset delta %d is negative", b.LastOffsetDelta())
	case b.NextOffset() < b.BaseOffset():
		return corrupt(pos, "base offset %d and last offset delta %d overflow", b.BaseOffset(), b.LastOffsetDelta())
	case b.LeaderEpoch() < -1:
		return corrupt(pos, "leader epoch %d is negative", b.LeaderEpoch())
	case !b.Codec().Valid():
		return corrupt(pos, "codec %d doesn't exist", uint8(b.Codec()))
	case b.Count() < 0:
		return corrupt(pos, "record count %d is negative", b.Count())
	case int64(b.Count()) > int64(b.LastOffsetDelta())+1:
		return corrupt(pos, "%d records in %d offsets", b.Count(), int64(b.LastOffsetDelta())+1)
	}
	return nil
}

// CheckCRC compares the stored CRC with the bytes. The error is a
// *CorruptError.
func (b Batch) CheckCRC() error {
	if len(b) < HeaderSize {
		return corrupt(0, "%d bytes, a header has %d", len(b), HeaderSize)
	}
	if got := b.ComputeCRC(); got != b.CRC() {
		return corrupt(0, "crc is %08x, bytes hash to %08x", b.CRC(), got)
	}
	return nil
}
