package repair

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/verify"
)

// Options choose what may be done.
type Options struct {
	// Cut allows a log to be cut where damage begins, though records behind it may
	// be whole. Without it such a log is left as it is.
	Cut bool
}

// Partition is what would be done to one log.
type Partition struct {
	// Dir is its directory, in the log directory LogDir ("" if not known: then
	// there are no checkpoints either).
	Dir, LogDir string
	Topic       model.TopicPartition
	// Rebuild names derived files that are wrong or missing.
	Rebuild []string
	// Cut is where the log is to end, nil if it is not cut.
	Cut *Cut
	// Left is why the log is not repaired, "" if it is.
	Left string
	// Damage is the first of the findings that Cut or Left is for.
	Damage *verify.Finding
}

// Cut is where a log is cut.
type Cut struct {
	// Segment is the name of the segment's file, Pos where in it the cut is.
	Segment string
	Pos     int64
	// At is the end of the log after it, End before it, as far as batches show.
	At, End model.Offset
	// Bytes and Segments are what is taken off: from Pos on, and whole segments
	// behind it.
	Bytes    int64
	Segments []string
}

// Nothing reports that there is nothing to do and nothing was left undone.
func (p *Partition) Nothing() bool { return len(p.Rebuild) == 0 && p.Cut == nil && p.Left == "" }

// Plan verifies what is under a path (see verify.Find) and plans its repair.
func Plan(fs vfs.FS, path string, o Options) ([]Partition, error) {
	at, err := verify.Find(fs, path)
	if err != nil {
		return nil, err
	}
	var plan []Partition
	for _, dir := range at.Partitions {
		r, err := verify.Partition(fs, dir, false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		p := Partition{Dir: dir, LogDir: at.Dir, Topic: r.Partition}
		if err := p.plan(fs, r, o); err != nil {
			return nil, err
		}
		plan = append(plan, p)
	}
	return plan, nil
}

// errMetadata is why the metadata log is never cut here.
var errMetadata = errors.New("the metadata log is not cut: a voter takes part again as an observer, and a sole one makes its metadata anew from what is whole")

func (p *Partition) plan(fs vfs.FS, r *verify.Report, o Options) error {
	for i := range r.Findings {
		f := &r.Findings[i]
		switch f.Grade {
		case verify.Note:
			if strings.HasSuffix(f.File, ".damaged") {
				p.Rebuild = append(p.Rebuild, f.File) // nothing opens the log as long as it is there
			}
		case verify.Derived:
			if !slices.Contains(p.Rebuild, f.File) {
				p.Rebuild = append(p.Rebuild, f.File)
			}
		case verify.Tail, verify.Damage:
			if p.Damage == nil {
				p.Damage = f
			}
		}
	}
	if r.More > 0 && p.Damage == nil {
		p.Damage = &verify.Finding{Grade: verify.Damage, File: ".", Position: -1, Offset: model.NoOffset, Text: "there are more findings than are listed"}
	}
	switch {
	case p.Damage == nil:
		return nil
	case r.Partition.Topic == verify.MetadataTopic:
		p.Left, p.Rebuild = errMetadata.Error(), nil
	case p.Damage.Grade == verify.Damage && !o.Cut:
		p.Left, p.Rebuild = "damage is not cut unless --cut is given; see also `tidemark log salvage`, and other replicas", nil
	case p.Damage.Position < 0:
		p.Left, p.Rebuild = "it is not known where a cut would be: a whole segment is missing, or more is wrong than can be listed", nil
	default:
		return p.cutAt(fs, r)
	}
	return nil
}

// cutAt plans the cut at the damage.
func (p *Partition) cutAt(fs vfs.FS, r *verify.Report) error {
	c := &Cut{Segment: p.Damage.File, Pos: p.Damage.Position, At: p.Damage.Offset, End: r.End}
	names, err := fs.List(p.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") || len(name) != len(c.Segment) || name < c.Segment {
			continue
		}
		info, err := fs.Stat(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		if name == c.Segment {
			c.Bytes += info.Size - c.Pos
			continue
		}
		c.Bytes += info.Size
		c.Segments = append(c.Segments, name)
	}
	p.Cut = c
	return nil
}
