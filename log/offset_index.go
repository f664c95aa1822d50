package log

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/tidemark/tidemark/internal/model"
)

// offsetEntrySize is the size of an entry of an .index file: a relative offset
// and a file position, four bytes each.
const offsetEntrySize = 8

// offsetEntry says at which position of the segment a batch begins. rel is the
// batch's last offset, relative to the segment's base.
type offsetEntry struct {
	rel uint32
	pos uint32
}

// relative returns o − base, limited to what an entry can hold.
func relative(base, o model.Offset) uint32 {
	switch d := int64(o) - int64(base); {
	case d < 0:
		return 0
	case d > math.MaxUint32:
		return math.MaxUint32
	default:
		return uint32(d)
	}
}

// floorEntry returns the index of the greatest entry whose offset is not above
// rel, −1 if there is none.
func floorEntry(es []offsetEntry, rel uint32) int {
	return sort.Search(len(es), func(i int) bool { return es[i].rel > rel }) - 1
}

func encodeOffsets(dst []byte, es []offsetEntry) []byte {
	for _, e := range es {
		dst = binary.BigEndian.AppendUint32(dst, e.rel)
		dst = binary.BigEndian.AppendUint32(dst, e.pos)
	}
	return dst
}

// decodeOffsets reads the bytes of an .index file of a segment of the given
// size whose offsets span span. The zeros that Kafka preallocates behind the
// last entry are dropped. Entries that don't rise, or point outside, are an
// error: the file is no index of this segment.
func decodeOffsets(b []byte, size int64, span uint32) ([]offsetEntry, error) {
	if len(b)%offsetEntrySize != 0 {
		return nil, fmt.Errorf("offset index of %d bytes is no multiple of %d", len(b), offsetEntrySize)
	}
	b = trimZeros(b, offsetEntrySize)
	es := make([]offsetEntry, len(b)/offsetEntrySize)
	for i := range es {
		e := offsetEntry{
			rel: binary.BigEndian.Uint32(b[i*offsetEntrySize:]),
			pos: binary.BigEndian.Uint32(b[i*offsetEntrySize+4:]),
		}
		if int64(e.pos) >= size || e.rel > span {
			return nil, fmt.Errorf("offset index entry %d (%d at %d) lies outside the segment of %d bytes, %d offsets",
				i, e.rel, e.pos, size, span)
		}
		if i > 0 && (e.rel <= es[i-1].rel || e.pos <= es[i-1].pos) {
			return nil, fmt.Errorf("offset index entry %d (%d at %d) does not rise above (%d at %d)",
				i, e.rel, e.pos, es[i-1].rel, es[i-1].pos)
		}
		es[i] = e
	}
	return es, nil
}

// trimZeros cuts whole entries of zeros from the end.
func trimZeros(b []byte, entry int) []byte {
	for len(b) >= entry {
		for _, c := range b[len(b)-entry:] {
			if c != 0 {
				return b
			}
		}
		b = b[:len(b)-entry]
	}
	return b
}
