package logtest

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/protocol/record"
)

// CheckDir reads a partition's directory file by file and reports what Kafka's
// own dump tool would call a mismatch, and more: every batch's CRC and order,
// every entry of every index. Segments without indexes pass. It shares no code
// with the log but the batch format.
func CheckDir(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	var expected model.Offset
	for _, name := range names {
		stem, ok := strings.CutSuffix(name, ".log")
		if !ok {
			continue
		}
		base, err := strconv.ParseInt(stem, 10, 64)
		if err != nil || len(stem) != 20 {
			return fmt.Errorf("segment name %q", name)
		}
		end, err := checkSegment(fs, dir, model.Offset(base))
		if err != nil {
			return fmt.Errorf("segment %d: %w", base, err)
		}
		if model.Offset(base) < expected {
			return fmt.Errorf("segment %d begins below %d", base, expected)
		}
		expected = end
	}
	return nil
}

// placed is a batch and where it stands.
type placed struct {
	record.Batch
	pos int64
	// maxTS is the greatest timestamp up to and with this batch.
	maxTS model.Timestamp
}

func checkSegment(fs vfs.FS, dir string, base model.Offset) (model.Offset, error) {
	file := func(suffix string) string { return filepath.Join(dir, fmt.Sprintf("%020d%s", base, suffix)) }
	data, err := vfs.ReadFile(fs, file(".log"))
	if err != nil {
		return 0, err
	}
	var batches []placed
	it := record.NewIter(data)
	end, maxTS := base, model.NoTimestamp
	for it.Next() {
		b := it.Batch()
		if err := b.CheckCRC(); err != nil {
			return 0, err
		}
		if b.BaseOffset() < end {
			return 0, fmt.Errorf("batch [%d, %d] where %d is expected", b.BaseOffset(), b.LastOffset(), end)
		}
		maxTS = max(maxTS, b.MaxTimestamp())
		batches = append(batches, placed{b, int64(it.Pos()), maxTS})
		end = b.NextOffset()
	}
	if it.Err() != nil || it.Rest() > 0 {
		return 0, fmt.Errorf("%d bytes behind the last batch, %v", it.Rest(), it.Err())
	}
	if raw, err := vfs.ReadFile(fs, file(".index")); err == nil {
		if err := checkOffsetIndex(raw, base, batches); err != nil {
			return 0, err
		}
	}
	if raw, err := vfs.ReadFile(fs, file(".timeindex")); err == nil {
		if err := checkTimeIndex(raw, base, batches); err != nil {
			return 0, err
		}
	}
	return end, nil
}

func checkOffsetIndex(raw []byte, base model.Offset, batches []placed) error {
	if len(raw)%8 != 0 {
		return fmt.Errorf(".index of %d bytes", len(raw))
	}
	for n := len(raw); n >= 8 && binary.BigEndian.Uint64(raw[n-8:]) == 0; n -= 8 {
		raw = raw[:n-8] // preallocated by Kafka
	}
	last := int64(-1)
	for i := 0; i < len(raw); i += 8 {
		rel, pos := int64(binary.BigEndian.Uint32(raw[i:])), int64(binary.BigEndian.Uint32(raw[i+4:]))
		found := false
		for _, b := range batches {
			found = found || b.pos == pos && int64(b.LastOffset()-base) == rel
		}
		if !found || pos == 0 || pos <= last {
			return fmt.Errorf(".index entry %d: offset %d at position %d is not the end of a batch there", i/8, int64(base)+rel, pos)
		}
		last = pos
	}
	return nil
}

func checkTimeIndex(raw []byte, base model.Offset, batches []placed) error {
	if len(raw)%12 != 0 {
		return fmt.Errorf(".timeindex of %d bytes", len(raw))
	}
	last := model.NoTimestamp
	for i := 0; i < len(raw); i += 12 {
		ts, rel := model.Timestamp(binary.BigEndian.Uint64(raw[i:])), int64(binary.BigEndian.Uint32(raw[i+8:]))
		found := false
		for _, b := range batches {
			found = found || int64(b.LastOffset()-base) == rel && b.MaxTimestamp() == ts && b.maxTS == ts
		}
		if !found || ts <= last {
			return fmt.Errorf(".timeindex entry %d: timestamp %d at offset %d is not the greatest so far of a batch", i/12, ts, int64(base)+rel)
		}
		last = ts
	}
	if n := len(batches); n > 0 && len(raw) > 0 && batches[n-1].maxTS != last {
		return fmt.Errorf(".timeindex ends with %d, the segment's greatest timestamp is %d", last, batches[n-1].maxTS)
	}
	return nil
}
