package salvage

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/scan"
)

// Survey is what was found, and what of it makes up a log.
type Survey struct {
	// Chosen are runs in the order of their offsets, none over another.
	Chosen []Run
	// Losses are bytes that are no batch, batches that are not chosen, and holes
	// in the offsets between those that are.
	Losses []Loss
}

// Batches and Records count what was chosen.
func (s *Survey) Batches() (n int64) {
	for _, r := range s.Chosen {
		n += r.Batches
	}
	return n
}

// Records counts what was chosen.
func (s *Survey) Records() (n int64) {
	for _, r := range s.Chosen {
		n += r.Records
	}
	return n
}

// Look reads segment files, or all of those in directories, which must be of one
// partition. Of each file the greatest part is believed in which offsets and
// leader epochs rise; what stands between only fills holes. Where two files hold
// the same offsets, the batches of the later leader epoch are chosen, and of equal
// ones those that were named first. The error is one of the disk.
func Look(fs vfs.FS, paths []string) (*Survey, error) {
	files, err := segments(fs, paths)
	if err != nil {
		return nil, err
	}
	s := &Survey{}
	var runs []Run
	for _, file := range files {
		found, losses, err := read(fs, file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		runs = append(runs, found...)
		s.Losses = append(s.Losses, losses...)
	}
	return s, s.choose(fs, runs)
}

// segments lists the files, each directory's in the order of their names.
func segments(fs vfs.FS, paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := fs.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir {
			files = append(files, path)
			continue
		}
		names, err := fs.List(path)
		if err != nil {
			return nil, err
		}
		n := len(files)
		for _, name := range names {
			if strings.HasSuffix(name, ".log") {
				files = append(files, filepath.Join(path, name))
			}
		}
		if len(files) == n {
			return nil, fmt.Errorf("%s: no segment in this directory", path)
		}
	}
	return files, nil
}

// read finds the runs of one file.
func read(fs vfs.FS, file string) (runs []Run, losses []Loss, err error) {
	src, err := scan.Open(fs, file)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	w := scan.NewWalker(src, scan.FloorOf(file))
	w.Skipped = func(pos, n int64, why string) {
		losses = append(losses, Loss{File: file, Pos: pos, Bytes: n, First: model.NoOffset, Last: model.NoOffset, Why: why})
	}
	for {
		f, ok, err := w.Next()
		switch {
		case err != nil:
			return nil, nil, err
		case !ok:
			return settle(runs), losses, nil
		case !f.Valid:
			losses = append(losses, Loss{
				File: file, Pos: f.Pos, Bytes: int64(len(f.Batch)), First: f.BaseOffset(), Last: f.LastOffset(),
				Why: fmt.Sprintf("crc is %d, the bytes hash to %d", f.CRC(), f.Sum),
			})
		case len(runs) > 0 && runs[len(runs)-1].continues(f):
			runs[len(runs)-1].extend(f)
		default:
			runs = append(runs, begin(file, f))
		}
	}
}

// choose puts runs in order: first those that fit in with their files, of the
// later epochs before the others, and strays where they fill a hole.
func (s *Survey) choose(fs vfs.FS, runs []Run) error {
	// A stable sort: what was named first comes first among equals.
	slices.SortStableFunc(runs, func(a, b Run) int {
		if a.stray != b.stray {
			if a.stray {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.LastEpoch, a.LastEpoch)
	})
	for _, r := range runs {
		if err := s.place(fs, r); err != nil {
			return err
		}
	}
	for i := 1; i < len(s.Chosen); i++ {
		if a, b := s.Chosen[i-1], s.Chosen[i]; b.First > a.Last+1 {
			s.Losses = append(s.Losses, Loss{First: a.Last + 1, Last: b.First - 1, Why: "no whole batch holds these offsets"})
		}
	}
	return nil
}

// place chooses those batches of a run whose offsets are free.
func (s *Survey) place(fs vfs.FS, r Run) error {
	if n := len(s.Chosen); r.stray && (n == 0 || r.Last > s.Chosen[n-1].Last) {
		s.Losses = append(s.Losses, Loss{File: r.File, Pos: r.Pos, Bytes: r.Bytes, First: r.First, Last: r.Last, Why: whyStray})
		return nil
	}
	free, err := s.free(fs, r.First, r.Last)
	if err != nil {
		return err
	}
	parts := []Run{r}
	if !free {
		if parts, err = s.parts(fs, r); err != nil {
			return err
		}
	}
	for _, part := range parts {
		s.Chosen = slices.Insert(s.Chosen, s.from(part.First), part)
	}
	return nil
}

// parts are the rows of a run's batches whose offsets are free.
func (s *Survey) parts(fs vfs.FS, r Run) (parts []Run, err error) {
	err = r.each(fs, func(f scan.Placed) error {
		free, err := s.free(fs, f.BaseOffset(), f.LastOffset())
		switch {
		case err != nil:
			return err
		case !free:
			s.leave(r.File, f)
		case len(parts) > 0 && parts[len(parts)-1].continues(f):
			parts[len(parts)-1].extend(f)
		default:
			parts = append(parts, begin(r.File, f))
		}
		return nil
	})
	return parts, err
}

// from is the index of the first chosen run that ends at or above an offset.
func (s *Survey) from(o model.Offset) int {
	return sort.Search(len(s.Chosen), func(i int) bool { return s.Chosen[i].Last >= o })
}

// free reports whether no chosen batch holds offsets of [first, last]. Where a
// chosen run might, but has holes, it is cut into its rows first.
func (s *Survey) free(fs vfs.FS, first, last model.Offset) (bool, error) {
	for {
		i := s.from(first)
		if i == len(s.Chosen) || s.Chosen[i].First > last {
			return true, nil
		}
		if !s.Chosen[i].sparse {
			return false, nil
		}
		rows, err := s.Chosen[i].rows(fs)
		if err != nil {
			return false, err
		}
		s.Chosen = slices.Replace(s.Chosen, i, i+1, rows...)
	}
}

// leave notes a batch that is not chosen, together with those before it.
func (s *Survey) leave(file string, f scan.Placed) {
	if n := len(s.Losses); n > 0 {
		l := &s.Losses[n-1]
		if l.File == file && l.Pos+l.Bytes == f.Pos && l.Why == whyTaken {
			l.Bytes += int64(len(f.Batch))
			l.Last = f.LastOffset()
			return
		}
	}
	s.Losses = append(s.Losses, Loss{
		File: file, Pos: f.Pos, Bytes: int64(len(f.Batch)), First: f.BaseOffset(), Last: f.LastOffset(), Why: whyTaken,
	})
}

const (
	whyTaken = "other batches with these offsets were chosen"
	whyStray = "it does not fit in with the rest of its file"
)
