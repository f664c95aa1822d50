package log

import (
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log/epoch"
	"github.com/tidemark/tidemark/protocol/record"
)

// unread is what a start took as it stood. A batch's base offset and leader epoch
// are outside its CRC, so no reader can tell that a disk has changed them. So before
// bytes of such a segment are first given away their headers are looked at: they
// must follow each other, as must the one behind them.
type unread struct {
	size int64 // what there was; this process wrote what lies behind
	// epochs are those that the start has settled on. Nobody changes them.
	epochs *epoch.Cache

	mu sync.Mutex
	// What was looked at. Readers go forward, so the longest range does.
	from, to int64
}

// reaches reports whether everything up to pos was looked at, pos included.
func (u *unread) reaches(pos int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.from < u.to && pos >= u.from && pos <= u.to
}

// has reports whether [pos, end) was looked at.
func (u *unread) has(pos, end int64) bool {
	if pos >= u.size {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return pos >= u.from && min(end, u.size) <= u.to
}

// contradicts reports whether a batch is of another epoch than the epoch file says.
func (u *unread) contradicts(b record.Batch) bool {
	e, ok := u.epochs.EpochFor(b.BaseOffset())
	return ok && b.LeaderEpoch() >= 0 && e != b.LeaderEpoch()
}

// note enters [pos, end).
func (u *unread) note(pos, end int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if pos > u.to || end < u.from {
		if end-pos > u.to-u.from {
			u.from, u.to = pos, end
		}
		return
	}
	u.from, u.to = min(u.from, pos), max(u.to, end)
}

// checkHeaders looks at the headers of the batches of segment i from pos on that
// n bytes reach into, at the next, and, unless a reader has come from there, at those
// before: one whose offsets have fallen may have been passed over for pos. It returns
// how many of the bytes may be given away. The error is for none.
func (v *View) checkHeaders(i int, w *headerWalk, pos, n int64) (int64, error) {
	s := v.segments[i]
	if s.unread == nil || s.unread.has(pos, pos+n) {
		return n, nil
	}
	from, err := v.checkFrom(i, w, pos)
	if err != nil {
		return 0, err
	}
	at, before := from, from
	expected, latest := s.base, model.NoEpoch
	for at < w.limit {
		b, err := w.header(at)
		sound := at // ends what can be believed if b can't
		if err == nil && (b.BaseOffset() < expected || b.LastOffset() >= v.next(i) || b.LeaderEpoch() < latest && b.LeaderEpoch() != model.NoEpoch) {
			sound = before // which of the two it is nobody can tell
			err = fmt.Errorf("batch [%d, %d] of epoch %d at %d, behind offset %d and epoch %d: %w",
				b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), at, expected, latest, errNoBatch)
		}
		if err == nil && at < s.unread.size && s.unread.contradicts(b) {
			err = fmt.Errorf("batch [%d, %d] of epoch %d at %d: the epoch file has another: %w",
				b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), at, errNoBatch)
		}
		if err != nil && sound > pos && errors.Is(err, errNoBatch) {
			return min(n, sound-pos), nil
		}
		if err != nil {
			return 0, err
		}
		if at >= pos+n {
			break
		}
		expected, latest = b.NextOffset(), max(latest, b.LeaderEpoch())
		before = at
		at += record.SizeOf(b)
	}
	s.unread.note(from, at)
	return n, nil
}

// checkFrom returns where to begin so that what is before pos is looked at too: two
// entries of the index earlier, since the batch of one has nothing to compare with.
func (v *View) checkFrom(i int, w *headerWalk, pos int64) (int64, error) {
	s, es := v.segments[i], v.tail.offsets
	if s.unread.reaches(pos) {
		return pos, nil
	}
	if !v.isTail(i) {
		x, err := s.load(w.f)
		if err != nil {
			return 0, err
		}
		if x.unsure {
			return pos, nil
		}
		es = x.offsets
	}
	k := sort.Search(len(es), func(k int) bool { return int64(es[k].pos) > pos })
	if k < 3 {
		return 0, nil
	}
	return int64(es[k-2].pos), nil
}
