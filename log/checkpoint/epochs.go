package checkpoint

import (
	"strconv"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/epoch"
)

// ReadEpochs reads an EpochFile. Entries that don't strictly rise in epoch and
// in offset are malformed: epoch.New accepts whatever this returns. A missing
// or empty file gives none. The error is a *FormatError, or that of the disk.
func ReadEpochs(fs vfs.FS, path string) ([]epoch.Entry, error) {
	text, err := load(fs, path)
	if err != nil {
		return nil, err
	}
	return DecodeEpochs(path, text)
}

// WriteEpochs replaces an EpochFile, atomically and durably.
func WriteEpochs(fs vfs.FS, path string, entries []epoch.Entry) error {
	return vfs.WriteFileAtomic(fs, path, EncodeEpochs(entries))
}

// DecodeEpochs reads the text of an EpochFile; path is for errors.
func DecodeEpochs(path string, text []byte) ([]epoch.Entry, error) {
	var entries []epoch.Entry
	err := entryLines(path, text, func(line []byte, n int) error {
		var field [2][]byte
		if !cutFields(line, field[:]) {
			return malformed(path, n, "%s is not \"epoch offset\"", quote(line))
		}
		e, err := strconv.ParseInt(string(field[0]), 10, 32)
		if err != nil || e < 0 {
			return malformed(path, n, "epoch %s", quote(field[0]))
		}
		start, err := strconv.ParseInt(string(field[1]), 10, 64)
		if err != nil || start < 0 {
			return malformed(path, n, "offset %s", quote(field[1]))
		}
		entry := epoch.Entry{Epoch: model.LeaderEpoch(e), Start: model.Offset(start)}
		if len(entries) > 0 {
			last := entries[len(entries)-1]
			if entry.Epoch <= last.Epoch || entry.Start <= last.Start {
				return malformed(path, n, "epoch %d at offset %d follows epoch %d at offset %d",
					entry.Epoch, entry.Start, last.Epoch, last.Start)
			}
		}
		entries = append(entries, entry)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// EncodeEpochs returns the text of an EpochFile.
func EncodeEpochs(entries []epoch.Entry) []byte {
	b := header(len(entries))
	for _, e := range entries {
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(e.Start), 10)
		b = append(b, '\n')
	}
	return b
}
