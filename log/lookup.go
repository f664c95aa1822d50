package log

import (
	"sort"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol/record"
)

// TimestampOffset is a record's offset and timestamp.
type TimestampOffset struct {
	Offset    model.Offset
	Timestamp model.Timestamp
}

// decompressedMax bounds what a look-up by time unpacks of one batch.
const decompressedMax = 64 << 20

// maxTS is the greatest timestamp of segment i.
func (v *View) maxTS(i int) (model.Timestamp, model.Offset) {
	if v.isTail(i) {
		return v.tail.maxTS, v.tail.maxTSLast
	}
	return v.segments[i].maxTS, v.segments[i].maxTSLast
}

// OffsetForTimestamp returns the first record at or above Start whose timestamp
// is not below ts; found is false if there is none below bound.
func (v *View) OffsetForTimestamp(ts model.Timestamp, bound model.Offset) (to TimestampOffset, found bool, err error) {
	for i := v.segmentFor(v.start); i < len(v.segments) && v.segments[i].base < bound; i++ {
		if m, _ := v.maxTS(i); m < ts {
			continue
		}
		to, found, err = v.searchTime(i, ts)
		if err != nil || found {
			break
		}
	}
	if err != nil || !found || to.Offset >= bound {
		return TimestampOffset{Offset: model.NoOffset, Timestamp: model.NoTimestamp}, false, err
	}
	return to, true, nil
}

// searchTime looks for the first record of segment i with a timestamp not below
// ts: the time index says which offsets are surely too old.
func (v *View) searchTime(i int, ts model.Timestamp) (to TimestampOffset, found bool, err error) {
	times, err := v.times(i)
	if err != nil {
		return to, false, err
	}
	from := max(v.start, v.segments[i].base)
	if k := floorTime(times, ts); k >= 0 {
		from = max(from, v.segments[i].base+model.Offset(times[k].rel))
	}
	return v.firstSince(i, from, ts)
}

// times returns the time index of segment i. One without a seal is made anew: an
// entry that lies would hide records, and can't be told from others.
func (v *View) times(i int) ([]timeEntry, error) {
	if v.isTail(i) {
		return v.tail.times, nil
	}
	s := v.segments[i]
	f, err := s.file.pin(s.size)
	if err != nil {
		return nil, err
	}
	defer s.file.unpin()
	x, err := s.load(f)
	if err == nil && x.unsure {
		x, err = s.rebuild(f)
	}
	if err != nil {
		return nil, v.damaged(i, 0, s.base, err)
	}
	return x.times, nil
}

// stopScan ends a walk early; it is never seen by callers.
type stopScan struct{}

func (stopScan) Error() string { return "stop" }

// firstSince scans segment i from the batch that holds from.
func (v *View) firstSince(i int, from model.Offset, ts model.Timestamp) (to TimestampOffset, found bool, err error) {
	buf := make([]byte, min(v.limit(i), scanBufferSize/4))
	err = v.segmentBatches(i, from, buf, func(b record.Batch) error {
		if b.MaxTimestamp() < ts {
			return nil
		}
		to, found, err = firstRecord(b, v.start, ts)
		if err == nil && found {
			return stopScan{}
		}
		return err
	})
	if _, stopped := err.(stopScan); stopped {
		err = nil
	}
	return to, found, err
}

// firstRecord returns the first record of a batch at or above from whose
// timestamp is not below ts. With LogAppendTime all have the batch's.
func firstRecord(b record.Batch, from model.Offset, ts model.Timestamp) (to TimestampOffset, found bool, err error) {
	err = b.Each(decompressedMax, func(r *record.Record) error {
		if r.Offset < from || r.Timestamp < ts {
			return nil
		}
		to, found = TimestampOffset{Offset: r.Offset, Timestamp: r.Timestamp}, true
		return stopScan{}
	})
	if _, stopped := err.(stopScan); stopped {
		err = nil
	}
	return to, found, err
}

// MaxTimestamp returns the first record with the greatest timestamp of the log;
// found is false if it is not below bound, or no record has a timestamp.
func (v *View) MaxTimestamp(bound model.Offset) (to TimestampOffset, found bool, err error) {
	none := TimestampOffset{Offset: model.NoOffset, Timestamp: model.NoTimestamp}
	best, at, last := model.NoTimestamp, -1, model.NoOffset
	for i := v.segmentFor(v.start); i < len(v.segments); i++ {
		if m, o := v.maxTS(i); m > best && v.limit(i) > 0 {
			best, at, last = m, i, o
		}
	}
	if at < 0 {
		return none, false, nil
	}
	to, found, err = v.firstSince(at, max(v.start, min(last, v.end-1)), best)
	if err != nil || !found || to.Offset >= bound {
		return none, false, err
	}
	return to, true, nil
}

// AbortedTxns returns the aborted transactions that a reader of [from, upper)
// must know of: those that end at or above from and begin below upper. It may
// name some that end beyond; their markers tell the reader.
func (v *View) AbortedTxns(from, upper model.Offset) []AbortedTxn {
	var found []AbortedTxn
	for i := v.segmentFor(from); i < len(v.segments); i++ {
		es := v.tail.txns
		if !v.isTail(i) {
			es = v.segments[i].txns
		}
		k := sort.Search(len(es), func(k int) bool { return es[k].last >= from })
		for _, e := range es[k:] {
			if e.first < upper {
				found = append(found, AbortedTxn{ProducerID: e.producer, FirstOffset: e.first})
			}
			if e.stable >= upper {
				return found
			}
		}
	}
	return found
}
