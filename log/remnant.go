package log

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/log/producer"
	"github.com/tidemark/tidemark/protocol/record"
)

// Remnant is what can be read of a damaged log: what lies below the damage. It is
// read only, and nothing on the disk is changed for it. Any goroutine may read
// through it.
type Remnant struct {
	// Damage is what ends it. View.End may lie below Damage.Offset: where two
	// batches contradict each other neither is believed.
	Damage *CorruptionError
	// View reads what lies below the damage. Its End is the first offset of which
	// nothing can be said.
	View *View
	// Stable is View.End, or where the oldest transaction begins whose end, if it has
	// one, lies behind the damage.
	Stable model.Offset
	// LogEnd is where the log ends as far as its files tell, damaged or not: rather too
	// high, where a batch behind the damage has another offset than it was given, than
	// too low.
	LogEnd model.Offset
	// Bytes is the size of all segment files.
	Bytes int64

	epochs *epoch.Cache // frozen
	files  []*segment
}

// OpenRemnant finds out what can be read of a log in which damage was found. It
// looks at the files as Open does, with the same options, and believes no more;
// damage that it meets earlier counts instead. epochs are the log's, if the caller
// had it open and knows; else the file's are looked at. Nothing is written. The log
// must not be open, nor may it be while the Remnant is in use. An error is one of the
// disk, or says that there is nothing left to read from.
func OpenRemnant(o Options, damage *CorruptionError, epochs *epoch.Cache) (*Remnant, error) {
	o.Renew, o.Fresh = false, false
	if o.Files == nil {
		o.Files = NewFileCache(0, 0)
	}
	ld := &loader{o: o}
	ld.begin()
	r, err := ld.remnant(damage, epochs)
	if err != nil {
		for _, s := range ld.found {
			s.file.close()
		}
		return nil, err
	}
	return r, nil
}

// Epochs are the leader epochs of the log; those that begin at or above View.End are
// what a file says of which nobody can tell any more whether it is right. Nil if
// there is none. Not to be changed.
func (r *Remnant) Epochs() *epoch.Cache { return r.epochs }

// Close lets go of the files. Readers that hold a Region may finish.
func (r *Remnant) Close() {
	for _, s := range r.files {
		s.file.close()
		s.file.cache.dropIndex(s)
	}
}

// remnant is the work of OpenRemnant.
func (ld *loader) remnant(damage *CorruptionError, epochs *epoch.Cache) (*Remnant, error) {
	if err := ld.survey(); err != nil {
		return nil, err
	}
	if epochs != nil && epochs.Len() > 0 {
		ld.fileEpochs = epochs.Clone()
	}
	if len(ld.found) == 0 {
		return nil, fmt.Errorf("%s holds no segment", ld.o.Dir)
	}
	i, damage, err := ld.firstDamage(damage)
	if err != nil {
		return nil, err
	}
	ld.credible = ld.credible || ld.fileAgrees(min(ld.scanFrom(), len(ld.found)))
	for {
		r, err := ld.remnantBelow(i, damage)
		var lower *CorruptionError
		if !errors.As(err, &lower) || !lower.before(damage) {
			return r, err
		}
		// As for Open, the first that is wrong counts.
		lower.BelowRecoveryPoint = ld.isBelow(lower.Offset)
		for damage = lower; i > 0 && ld.found[i].base > damage.Segment; {
			i--
		}
	}
}

// before reports whether c lies in front of other, in the same log.
func (c *CorruptionError) before(other *CorruptionError) bool {
	return c.Segment < other.Segment || c.Segment == other.Segment && c.Pos < other.Pos
}

// remnantBelow is remnant once it is known that the damage is in segment i. The batches
// in front of it may turn out to be damaged too, as may what the epochs or the
// transactions have to be made of; then the error is a *CorruptionError.
func (ld *loader) remnantBelow(i int, damage *CorruptionError) (*Remnant, error) {
	t, end, err := ld.soundTip(i, damage)
	// Where nothing of a segment is left the batch that it contradicts, or that lacks
	// one to confirm it, is in the segment before.
	for ; err == nil && t.size == 0 && i > 0; i-- {
		t, end, err = ld.soundTip(i-1, damage)
	}
	if err != nil {
		return nil, err
	}
	start := max(ld.l.logStart, ld.found[0].base)
	if end < start {
		return nil, fmt.Errorf("the damage begins at %d, the log at %d", end, start)
	}
	r := &Remnant{Damage: damage}
	v := ld.soundView(i, t, start, end)
	if err := ld.soundTxns(i, v, r); err != nil {
		return nil, err
	}
	if r.epochs, err = ld.soundEpochs(i, v); err != nil {
		return nil, err
	}
	for _, s := range ld.found[:i] {
		if s.unread != nil {
			s.unread.epochs = r.epochs
		}
	}
	if r.LogEnd, err = ld.endBehind(i, t.size, end); err != nil {
		return nil, err
	}
	for k, s := range ld.found {
		r.Bytes += s.length
		if k > i {
			s.file.close()
			s.file.cache.dropIndex(s.segment)
		}
	}
	r.View, r.files = v, v.segments
	return r, nil
}

// firstDamage judges the segments in front of the known damage as Open does, and
// returns in which one reading must end, and why.
func (ld *loader) firstDamage(known *CorruptionError) (int, *CorruptionError, error) {
	stop := len(ld.found) - 1
	for stop > 0 && ld.found[stop].base > known.Segment {
		stop--
	}
	from := ld.scanFrom()
	for i := range ld.found[:stop] {
		err := ld.notedIn(i)
		ended := false
		switch {
		case err != nil:
		case i < from:
			err = ld.trust(i)
		default:
			if i == from {
				if err = ld.producersBefore(from); err != nil {
					return 0, nil, err
				}
				ld.credible = ld.fileAgrees(from)
			}
			ended, err = ld.scanSegment(i, false)
		}
		var found *CorruptionError
		switch {
		case errors.As(err, &found):
			return i, found, nil
		case err != nil:
			return 0, nil, err
		case ended:
			return i, known, nil
		}
	}
	if err := ld.notedIn(stop); err != nil {
		var noted *CorruptionError
		if errors.As(err, &noted) && noted.Pos < known.Pos && noted.Segment == known.Segment {
			return stop, noted, nil
		}
	}
	return stop, known, nil
}

// soundTip reads segment i from its beginning to the damage and returns the tip of a
// log that ends there.
func (ld *loader) soundTip(i int, damage *CorruptionError) (*tip, model.Offset, error) {
	s := ld.found[i]
	w := &soundWalk{ld: ld, i: i, limit: s.size, stop: s.size}
	if damage.Segment == s.base {
		w.stop = damage.Pos
	}
	to, err := w.end()
	if err != nil {
		return nil, 0, err
	}
	f, err := s.file.pin(0)
	if err != nil {
		return nil, 0, err
	}
	defer s.file.unpin()
	t := &tip{seg: s.segment, index: newIndexBuilder(s.base, ld.l.cfg.IndexIntervalBytes), size: to}
	end := s.base
	sc := scanner{f: f, limit: to, buf: grow(nil, to)}
	for pos := int64(0); pos < to; {
		b, err := sc.next(pos)
		if err != nil {
			return nil, 0, err
		}
		t.add(b, pos)
		end = b.NextOffset()
		pos += int64(len(b))
	}
	return t, end, nil
}

// soundView is the picture of the segments in front of segment i, and of that one up
// to where t ends.
func (ld *loader) soundView(i int, t *tip, start, end model.Offset) *View {
	v := &View{start: start, end: end, tail: tail{
		size: t.size, offsets: t.index.offsets, times: t.index.times, marks: t.marks,
		maxTS: t.index.maxTS, maxTSLast: t.index.maxTSLast,
	}}
	for _, s := range ld.found[:i] {
		if s.rebuilt != nil {
			s.keep(s.rebuilt) // the files beside it stay as they are
		}
		v.sealedBytes += s.size
		v.segments = append(v.segments, s.segment)
	}
	s := ld.found[i]
	if t.size == s.size {
		v.tail.heads = s.headSum() // nothing of it is lost
	}
	v.segments = append(v.segments, &segment{base: s.base, file: s.file, interval: s.interval})
	return v
}

// soundTxns computes the aborted transactions of segment i and of those whose index
// can't be believed, and where the oldest open one begins.
func (ld *loader) soundTxns(i int, v *View, r *Remnant) error {
	for _, k := range ld.txnsMissing {
		if k < i {
			if err := ld.rebuildTxns(k); err != nil {
				return err
			}
		}
	}
	temp := &Log{
		fs: ld.l.fs, dir: ld.l.dir, logStart: v.start,
		segments: v.segments[:1], producers: producer.New(),
	}
	base := v.segments[i].base
	if err := temp.loadSnapshot(base); err != nil {
		return err
	}
	from := max(temp.producers.MapEnd(), v.segments[0].base)
	err := v.batches(min(from, v.end), nil, func(b record.Batch) error {
		if b.BaseOffset() < from {
			return nil
		}
		if done, ok := temp.producers.Update(b); ok && done.Aborted && done.LastOffset >= base {
			v.tail.txns = append(v.tail.txns, txnEntry{
				producer: done.ProducerID, first: done.FirstOffset, last: done.LastOffset, stable: done.LastStableOffset,
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("transactions below the damage: %w", err)
	}
	r.Stable = v.end
	if first, open := temp.producers.FirstUndecided(); open {
		r.Stable = max(v.start, min(first, v.end))
	}
	return nil
}

// soundEpochs returns the epochs: the file's where it agrees with every segment in
// front of the damage, else the batches'.
func (ld *loader) soundEpochs(i int, v *View) (*epoch.Cache, error) {
	agrees := ld.fileEpochs != nil
	for _, s := range ld.found[:i] {
		agrees = agrees && ld.fileSays(s.first) && ld.fileSays(s.lastBatch)
	}
	if err := ld.fileIsWrongWhere(v, i); err != nil {
		return nil, err
	}
	if agrees {
		err := v.segmentBatches(i, v.segments[i].base, grow(make([]byte, record.HeaderSize), v.tail.size), func(b record.Batch) error {
			agrees = agrees && ld.fileSays(batchFacts{base: b.BaseOffset(), last: b.LastOffset(), epoch: b.LeaderEpoch(), some: true})
			return nil
		})
		if err == nil && !agrees && v.tail.heads.known {
			err = ld.fileIsWrong(v, i)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, ok := ld.fileEpochFor(v.start); agrees && (ok || v.start == v.end) {
		c := ld.fileEpochs.Clone()
		c.TruncateFromStart(v.start)
		return c, nil
	}
	// The file may be right and a batch another: then their epochs fall somewhere, and
	// what was made of them would say the wrong thing of all that lies before.
	c, err := ld.rebuildEpochs(v)
	if err != nil {
		return nil, fmt.Errorf("epochs below the damage: %w", err)
	}
	c.TruncateFromStart(v.start)
	return c, nil
}

// fileEpochFor is EpochFor of the epoch file, if there is one.
func (ld *loader) fileEpochFor(o model.Offset) (model.LeaderEpoch, bool) {
	if ld.fileEpochs == nil {
		return model.NoEpoch, false
	}
	return ld.fileEpochs.EpochFor(o)
}
