package log

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// timeEntrySize is the size of an entry of a .timeindex file: a timestamp of
// eight bytes and a relative offset of four.
const timeEntrySize = 12

// timeEntry says that every record with a timestamp above ts has an offset
// above base + rel: ts was the greatest so far, and rel is the last offset of
// the batch that brought it.
type timeEntry struct {
	ts  model.Timestamp
	rel uint32
}

// floorTime returns the index of the greatest entry whose timestamp is below
// ts, −1 if there is none. Below, not at: the first record with exactly ts may
// lie before the entry's offset.
func floorTime(es []timeEntry, ts model.Timestamp) int {
	return sort.Search(len(es), func(i int) bool { return es[i].ts >= ts }) - 1
}

func encodeTimes(dst []byte, es []timeEntry) []byte {
	for _, e := range es {
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.ts))
		dst = binary.BigEndian.AppendUint32(dst, e.rel)
	}
	return dst
}

// decodeTimes reads the bytes of a .timeindex file, as decodeOffsets does.
func decodeTimes(b []byte, span uint32) ([]timeEntry, error) {
	if len(b)%timeEntrySize != 0 {
		return nil, fmt.Errorf("time index of %d bytes is no multiple of %d", len(b), timeEntrySize)
	}
	b = trimZeros(b, timeEntrySize)
	es := make([]timeEntry, len(b)/timeEntrySize)
	for i := range es {
		e := timeEntry{
			ts:  model.Timestamp(binary.BigEndian.Uint64(b[i*timeEntrySize:])),
			rel: binary.BigEndian.Uint32(b[i*timeEntrySize+8:]),
		}
		if e.rel > span {
			return nil, fmt.Errorf("time index entry %d (%d at offset %d) lies outside the segment of %d offsets",
				i, e.ts, e.rel, span)
		}
		if e.ts < 0 || i > 0 && (e.ts <= es[i-1].ts || e.rel < es[i-1].rel) {
			return nil, fmt.Errorf("time index entry %d (%d at offset %d) does not rise", i, e.ts, e.rel)
		}
		es[i] = e
	}
	return es, nil
}

// indexBuilder makes the two indexes of a segment as its batches go by, in the
// same way whether they are appended, recovered or indexed anew.
type indexBuilder struct {
	base model.Offset
	// interval is index.interval.bytes: an entry is due when more bytes than
	// that lie since the last one, the batch that brings it not counted.
	interval int64
	since    int64
	offsets  []offsetEntry
	times    []timeEntry
	// firstTS is the maxTimestamp of the first batch; age is counted from it.
	firstTS model.Timestamp
	// maxTS is the greatest timestamp so far, maxTSLast the last offset of the
	// batch that brought it.
	maxTS     model.Timestamp
	maxTSLast model.Offset
	batches   int64
	heads     headSum
}

func newIndexBuilder(base model.Offset, interval int32) indexBuilder {
	return indexBuilder{
		base:      base,
		interval:  int64(interval),
		firstTS:   model.NoTimestamp,
		maxTS:     model.NoTimestamp,
		maxTSLast: base,
		heads:     headSum{known: true},
	}
}

// addBatch takes the batch at pos into account. The time of one that compaction
// has emptied is no record's.
func (x *indexBuilder) addBatch(b record.Batch, pos int64) {
	ts := b.MaxTimestamp()
	if b.Count() == 0 {
		ts = model.NoTimestamp
	}
	x.heads.add(b)
	x.add(b.LastOffset(), ts, pos, record.SizeOf(b))
}

// add takes a batch of size bytes at pos into account.
func (x *indexBuilder) add(last model.Offset, maxTS model.Timestamp, pos, size int64) {
	if x.batches == 0 {
		x.firstTS = maxTS
	}
	x.batches++
	if maxTS > x.maxTS {
		x.maxTS, x.maxTSLast = maxTS, last
	}
	if x.since > x.interval && pos <= math.MaxUint32 {
		x.offsets = append(x.offsets, offsetEntry{rel: relative(x.base, last), pos: uint32(pos)})
		x.noteTime()
		x.since = 0
	}
	x.since += size
}

// noteTime adds a time index entry if the greatest timestamp has risen.
func (x *indexBuilder) noteTime() {
	if x.maxTS < 0 {
		return
	}
	if n := len(x.times); n > 0 && x.times[n-1].ts >= x.maxTS {
		return
	}
	x.times = append(x.times, timeEntry{ts: x.maxTS, rel: relative(x.base, x.maxTSLast)})
}
