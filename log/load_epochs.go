package log

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/protocol/record"
)

// fileIsWrongWhere returns the damage of the first of the segments before from that the
// epoch file contradicts and that is not as it was written, nil if there is none.
func (ld *loader) fileIsWrongWhere(v *View, from int) error {
	for k, s := range ld.found[:from] {
		if ld.fileEpochs == nil || ld.fileSays(s.first) && ld.fileSays(s.lastBatch) {
			continue
		}
		if err := ld.fileIsWrong(v, k); err != nil {
			return err
		}
	}
	return nil
}

// scannedIsWrong does the same for those from there on, which were scanned, as far as
// their seals speak of all that is in them: what a start after an orderly stop has found
// the next one finds too, however the one between ended.
func (ld *loader) scannedIsWrong(from int) error {
	for k := from; k <= ld.last && k < len(ld.found) && ld.fileEpochs != nil; k++ {
		s := ld.found[k]
		if !s.first.some || s.first.base >= ld.o.RecoveryPoint || ld.fileSays(s.first) ||
			s.seal == nil || s.seal.size != s.size || s.seal.next != s.end {
			continue
		}
		v := ld.viewOf(k + 1)
		v.end, v.tail.size, v.tail.heads = s.end, s.size, s.headSum()
		if err := ld.fileIsWrong(v, k); err != nil {
			return err
		}
	}
	return nil
}

// fileIsWrong judges a segment k of v that the epoch file contradicts: nil if it is as it
// was written, so that the file is what is wrong, or if nothing tells; else its damage.
// Of what lies below the log's start nothing is said.
func (ld *loader) fileIsWrong(v *View, k int) error {
	s := ld.found[k]
	if !s.headSum().known {
		return nil
	}
	limit := v.limit(k)
	f, err := s.file.pin(limit)
	if err != nil {
		return err
	}
	defer s.file.unpin()
	buf := grow(nil, limit)
	var damage *CorruptionError
	err = v.newExam(k, &epoch.Cache{}, model.NoEpoch).read(f, buf, nil)
	if !errors.As(err, &damage) {
		return err
	}
	// Where it is the epoch that has changed the file says in which batch.
	var first *CorruptionError
	if err := v.newExam(k, ld.fileEpochs, model.NoEpoch).read(f, buf, nil); errors.As(err, &first) {
		damage = first
	}
	if damage.Offset < ld.l.logStart {
		return nil
	}
	damage.BelowRecoveryPoint = ld.isBelow(damage.Offset)
	return damage
}

// rebuildEpochs is used where the epoch file can't be believed: every batch of v
// says its own. A fall from one to the next is damage: no checksum covers an epoch,
// and which of the two was changed can't be told. Without that the replica would
// hold others to a history that never was.
func (ld *loader) rebuildEpochs(v *View) (*epoch.Cache, error) {
	c := &epoch.Cache{}
	last, fallen := model.NoEpoch, model.NoOffset
	err := v.Batches(v.start, nil, func(b record.Batch) error {
		if e := b.LeaderEpoch(); e >= 0 && e < last {
			fallen = b.BaseOffset()
			return fmt.Errorf("batch [%d, %d] of epoch %d after epoch %d", fallen, b.LastOffset(), e, last)
		}
		last = max(last, b.LeaderEpoch())
		c.Assign(b.LeaderEpoch(), b.BaseOffset())
		return nil
	})
	if fallen < 0 {
		return c, err
	}
	i := v.segmentFor(fallen)
	pos, lerr := v.cutPosition(i, fallen)
	if lerr != nil {
		return nil, lerr
	}
	return nil, ld.damage(i, pos, fallen, err)
}
