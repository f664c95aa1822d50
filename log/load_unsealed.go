package log

import (
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/tidemark/tidemark/internal/model"
)

// vouch looks at the indexes of a segment without a seal, as Kafka leaves it, as
// far as that can be done without reading all of it: resume has confirmed the last
// entry of the offset index, and this the last one of the time index. That entry
// decides when the segment is deleted by age and whether a look-up by time enters
// it; those before it are made anew when they are first wanted (see View.times).
// x is what the files say, t where resume ended.
func (s *segment) vouch(w *headerWalk, x *segmentIndexes, t *tip) error {
	n := len(x.times)
	if s.size == 0 || n == 0 && len(x.offsets) == 0 {
		return nil // every batch was looked at
	}
	first, err := w.header(0)
	if err != nil {
		return err
	}
	if n == 0 {
		if first.MaxTimestamp() < 0 {
			return nil
		}
		return fmt.Errorf("%w: no time for a segment that begins at %d", errBadIndex, first.MaxTimestamp())
	}
	// The last entry is made when a segment is closed, of its greatest timestamp.
	last := x.times[n-1]
	if found := max(first.MaxTimestamp(), t.index.maxTS); found != last.ts {
		return fmt.Errorf("%w: the last time is %d, a batch has %d", errBadIndex, last.ts, found)
	}
	return s.confirmTime(w, last)
}

// confirmTime checks that a batch with the entry's timestamp lies where it says.
func (s *segment) confirmTime(w *headerWalk, e timeEntry) error {
	near, err := s.floorInFile(e.rel)
	if err != nil {
		return err
	}
	if near.pos > 0 {
		if err := w.confirm(s.base, near); err != nil {
			return err
		}
	}
	at := s.base + model.Offset(e.rel)
	pos, size, err := w.seek(int64(near.pos), at)
	if err != nil {
		return err
	}
	if size == 0 {
		return fmt.Errorf("%w: time %d at %d, behind the last batch", errBadIndex, e.ts, at)
	}
	b, err := w.header(pos)
	if err != nil {
		return err
	}
	if b.BaseOffset() > at || b.MaxTimestamp() != e.ts {
		return fmt.Errorf("%w: time %d at %d, batch [%d, %d] has %d", errBadIndex, e.ts, at, b.BaseOffset(), b.LastOffset(), b.MaxTimestamp())
	}
	return nil
}

// floorInFile is floorEntry in the offset index file, of which it reads a few
// entries only. Without one it is the segment's beginning.
func (s *segment) floorInFile(rel uint32) (offsetEntry, error) {
	f, err := s.file.fs.OpenFile(s.path(indexSuffix), 0, 0)
	if err != nil {
		return offsetEntry{}, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return offsetEntry{}, err
	}
	entry := func(i int) (e offsetEntry) {
		var b [offsetEntrySize]byte
		if n, rerr := f.ReadAt(b[:], int64(i)*offsetEntrySize); n < len(b) {
			err = rerr
		}
		return offsetEntry{rel: binary.BigEndian.Uint32(b[:]), pos: binary.BigEndian.Uint32(b[4:])}
	}
	// Zeros behind the last entry, as in the segment that Kafka was writing, are as
	// good as an entry that lies above.
	i := sort.Search(int(size/offsetEntrySize), func(i int) bool {
		e := entry(i)
		return e.rel > rel || e == offsetEntry{}
	}) - 1
	if i < 0 || err != nil {
		return offsetEntry{}, err
	}
	e := entry(i)
	return e, err
}
