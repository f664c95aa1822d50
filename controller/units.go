package controller

import (
	"fmt"

	"github.com/tidemark/tidemark/controller/metadata"
)

// Bounds of what one command and one entry may carry. Source: rules 8.
const (
	// RecordsMax is the number of records of one user command, and of one entry.
	RecordsMax = 10_000
	// EntryBytesMax is the encoded size of one entry in bytes.
	EntryBytesMax = 1 << 20
	// entryOverhead is more than the frame of an entry takes.
	entryOverhead = 32
	// chunkRecords is the size of the units that long lists of independent
	// records are cut into.
	chunkRecords = 500
)

// tooLarge says why units cannot be one user command, or "".
func tooLarge(units [][]metadata.Record) string {
	n := 0
	for _, u := range units {
		n += len(u)
		if size := unitSize(u); size > EntryBytesMax-entryOverhead {
			return fmt.Sprintf("%d records of together %d bytes do not fit an entry of %d", len(u), size, EntryBytesMax)
		}
	}
	if n > RecordsMax {
		return fmt.Sprintf("excessively large operation: %d records, at most %d", n, RecordsMax)
	}
	return ""
}

func unitSize(u []metadata.Record) (size int) {
	for _, r := range u {
		size += metadata.RecordSize(r)
	}
	return size
}

// Pack joins units into entries of at most RecordsMax records and EntryBytesMax
// bytes. Units stay whole and in order; the image is valid after each entry. A
// single unit beyond the bounds becomes an entry of its own.
func Pack(units [][]metadata.Record) [][]metadata.Record {
	var entries [][]metadata.Record
	bytes := 0
	for _, u := range units {
		size := unitSize(u)
		last := len(entries) - 1
		if last >= 0 && len(entries[last])+len(u) <= RecordsMax && bytes+size <= EntryBytesMax-entryOverhead {
			entries[last] = append(entries[last], u...)
			bytes += size
			continue
		}
		entries = append(entries, append([]metadata.Record(nil), u...))
		bytes = size
	}
	return entries
}

// chunked cuts independent records into units.
func chunked(recs []metadata.Record) [][]metadata.Record {
	var units [][]metadata.Record
	for len(recs) > chunkRecords {
		units = append(units, recs[:chunkRecords:chunkRecords])
		recs = recs[chunkRecords:]
	}
	if len(recs) > 0 {
		units = append(units, recs)
	}
	return units
}
