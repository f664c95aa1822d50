package checkpoint

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Offsets is the content of one offset checkpoint: RecoveryPointFile,
// LogStartFile, HighWatermarkFile or CleanerFile.
type Offsets = map[model.TopicPartition]model.Offset

// ReadOffsets reads an offset checkpoint. A missing or empty file gives an
// empty map. The error is a *FormatError, or that of the disk.
func ReadOffsets(fs vfs.FS, path string) (Offsets, error) {
	text, err := load(fs, path)
	if err != nil {
		return Offsets{}, err
	}
	return DecodeOffsets(path, text)
}

// WriteOffsets replaces an offset checkpoint, atomically and durably.
func WriteOffsets(fs vfs.FS, path string, offsets Offsets) error {
	return vfs.WriteFileAtomic(fs, path, EncodeOffsets(offsets))
}

// DecodeOffsets reads the text of an offset checkpoint; path is for errors.
// With an error the map is empty: half a checkpoint is none.
func DecodeOffsets(path string, text []byte) (Offsets, error) {
	offsets := Offsets{}
	err := entryLines(path, text, func(line []byte, n int) error {
		var field [3][]byte
		if !cutFields(line, field[:]) {
			return malformed(path, n, "%s is not \"topic partition offset\"", quote(line))
		}
		partition, err := strconv.ParseInt(string(field[1]), 10, 32)
		if err != nil || partition < 0 {
			return malformed(path, n, "partition %s", quote(field[1]))
		}
		offset, err := strconv.ParseInt(string(field[2]), 10, 64)
		if err != nil || offset < 0 {
			return malformed(path, n, "offset %s", quote(field[2]))
		}
		tp := model.TopicPartition{Topic: string(field[0]), Partition: int32(partition)}
		if _, twice := offsets[tp]; twice {
			return malformed(path, n, "%s is listed twice", tp)
		}
		offsets[tp] = model.Offset(offset)
		return nil
	})
	if err != nil {
		return Offsets{}, err
	}
	return offsets, nil
}

// EncodeOffsets returns the text of an offset checkpoint, sorted by topic and
// partition.
func EncodeOffsets(offsets Offsets) []byte {
	tps := make([]model.TopicPartition, 0, len(offsets))
	for tp := range offsets { // order-free: sorted below
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, func(a, b model.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	b := header(len(tps))
	for _, tp := range tps {
		b = append(b, tp.Topic...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(tp.Partition), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(offsets[tp]), 10)
		b = append(b, '\n')
	}
	return b
}
