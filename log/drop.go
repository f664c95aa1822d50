package log

import (
	"fmt"
	"sync"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// Drop is the removal of the files of segments that the log has let go of. It is
// started and finished by the owner of the log, and run and unlinked by anybody.
// Only one exists at a time.
type Drop struct {
	fs       vfs.FS
	dir      string
	files    *FileCache
	segments []*segment
	// first is the base of the first segment that stays.
	first model.Offset
	bytes int64

	mu      sync.Mutex
	renamed int // so many of segments are out of the way
	over    bool
	err     error
}

// Segments and Bytes say how much goes; Start and End bound its offsets.
func (d *Drop) Segments() int { return len(d.segments) }

// Bytes is the size of the segments.
func (d *Drop) Bytes() int64 { return d.bytes }

// Start is the base of the first segment that goes.
func (d *Drop) Start() model.Offset { return d.segments[0].base }

// End is the base of the first segment that stays.
func (d *Drop) End() model.Offset { return d.first }

// StartDrop lets go of the segments that lie wholly below the log's start and
// below durable, but never of the one being written: the View shows them no
// more, their files are the Drop's. durable is the log start that the
// directory's checkpoint holds: what was taken away must not come back to view
// after a crash in between. Nil if there is no such segment, if another Drop or
// a Swap is under way (their end comes first), or if the log is not usable.
func (l *Log) StartDrop(durable model.Offset) *Drop {
	if l.usable() != nil || l.drop != nil || l.swap != nil {
		return nil
	}
	start := min(l.logStart, durable)
	n := 0
	for n+1 < len(l.segments) && l.segments[n+1].base <= start {
		n++
	}
	if n == 0 {
		return nil
	}
	d := &Drop{fs: l.fs, dir: l.dir, files: l.files, segments: l.segments[:n:n], first: l.segments[n].base}
	for _, s := range d.segments {
		d.bytes += s.size
	}
	l.segments = append([]*segment(nil), l.segments[n:]...)
	l.drop = d
	l.publish()
	return d
}

// Run renames the files, so that a later start removes them should Unlink not
// come to it, and removes what stands beside them. Each name is durable before
// the next changes: a lost one in between would leave a hole. A second call
// returns what the first one did.
func (d *Drop) Run() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return d.err
	}
	d.over = true
	for _, s := range d.segments {
		if d.err = d.rename(s); d.err != nil {
			return d.err
		}
		d.renamed++
	}
	removeSnapshotsBelow(d.fs, d.dir, d.first)
	return nil
}

func (d *Drop) rename(s *segment) error {
	if err := discardFiles(d.fs, s, nil); err != nil {
		return err
	}
	d.files.dropIndex(s)
	if err := d.fs.SyncDir(d.dir); err != nil {
		return fmt.Errorf("sync directory %s: %w", d.dir, err)
	}
	return nil
}

// Unlink removes the renamed files in which no reader is left, and returns how
// many must wait for a later call.
func (d *Drop) Unlink() (left int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return unlinkAll(d.segments[:d.renamed])
}

// cancel has Run do nothing if it has not begun, and waits for it if it has.
func (d *Drop) cancel() {
	d.mu.Lock()
	d.over = true
	d.mu.Unlock()
}

// FinishDrop takes the outcome of Run into account. A failure poisons the log:
// which names the directory holds is not known.
func (l *Log) FinishDrop(d *Drop, err error) error {
	if l.drop == d {
		l.drop = nil
	}
	if err != nil && l.usable() == nil {
		return l.poison("drop segments", err)
	}
	return l.usable()
}

// settle completes the Mend, and the Drop or Swap, that is under way: whoever makes files anew
// must not meet those of before.
func (l *Log) settle() error {
	if m := l.mend; m != nil {
		_ = m.Run() // what it could not store is stored later
		l.FinishMend(m)
	}
	if d := l.drop; d != nil {
		return l.FinishDrop(d, d.Run())
	}
	if s := l.swap; s != nil {
		return l.FinishSwap(s, s.Run())
	}
	return nil
}

// DropBelow is StartDrop, Run and FinishDrop in one, for an owner who may wait
// for the disk and keeps no checkpoint of the log's start. The files go with the
// next Reclaim.
func (l *Log) DropBelow() (segments int, bytes int64, err error) {
	if err := l.usable(); err != nil {
		return 0, 0, err
	}
	d := l.StartDrop(l.logStart)
	if d == nil {
		return 0, 0, nil
	}
	err = l.FinishDrop(d, d.Run())
	for _, s := range d.segments[:d.renamed] {
		l.trash.discard(s.file)
		segments++
		bytes += s.size
	}
	return segments, bytes, err
}
