package log

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/epoch"
)

// VerifySegment reads all of the segment that holds an offset and checks every
// batch: its structure and CRC, and what the CRC does not cover, the base offset
// and the leader epoch, against its neighbours, the epoch cache of that view and the
// digest of what was written. The cache may have been made from damaged batches, so
// no epoch may lie above newest either, the one that the partition is led in; NoEpoch
// is any. It returns a *CorruptionError for damage, nil if there is none, and any
// other error if the segment could not be read, or is gone.
func (v *View) VerifySegment(at model.Offset, epochs *epoch.Cache, newest model.LeaderEpoch) error {
	if at < v.start || at > v.end {
		return fmt.Errorf("verify at %d of [%d, %d): %w", at, v.start, v.end, ErrOffsetOutOfRange)
	}
	i := v.segmentFor(at)
	limit := v.limit(i)
	if limit == 0 {
		return v.newExam(i, epochs, newest).atEnd()
	}
	file := v.segments[i].file
	f, err := file.pin(limit)
	if err != nil {
		return err
	}
	defer file.unpin()
	buf := make([]byte, min(limit, scanBufferSize))
	return v.newExam(i, epochs, newest).read(f, buf, nil)
}

// NoteDamage leaves a mark beside a segment whose damage was found while it was
// in use: no load opens the log as long as it is there, since a load does not read
// everything and would not find the damage again. The other files stay as they
// are. It waits for the disk.
func NoteDamage(fs vfs.FS, d *CorruptionError) error {
	text := fmt.Sprintf("position %d, offset %d: %v\n", d.Pos, d.Offset, d.Err)
	return vfs.WriteFileAtomic(fs, filepath.Join(d.Dir, fileName(d.Segment, damagedSuffix)), []byte(text))
}

// NoteFailure leaves a mark in the directory of a log which the disk has refused, and
// which is about to be set aside: who finds it aside knows by it what it is. A log
// that is opened under its own name all the same, after a crash, is as sound as the
// disk lets it be, and the mark goes. It waits for the disk.
func NoteFailure(fs vfs.FS, dir string, why error) error {
	return vfs.WriteFileAtomic(fs, filepath.Join(dir, FailedNote), []byte(why.Error()+"\n"))
}

// noted returns the damage that was noted in an earlier life, if any was.
func (ld *loader) noted() error {
	for i := range ld.found {
		if err := ld.notedIn(i); err != nil {
			return err
		}
	}
	return nil
}

// notedIn returns the damage that was noted of segment i.
func (ld *loader) notedIn(i int) error {
	s := ld.found[i]
	name := fileName(s.base, damagedSuffix)
	if !ld.side[name] {
		return nil
	}
	text, err := vfs.ReadFile(ld.o.FS, ld.l.path(name))
	if err != nil {
		return err
	}
	pos, at := int64(0), s.base
	_, _ = fmt.Sscanf(string(text), "position %d, offset %d", &pos, &at) // what can't be read is the whole segment
	return ld.damage(i, pos, at, fmt.Errorf("noted in %s: %s", name, strings.TrimSpace(string(text))))
}
