package log

import (
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// DescribeDir describes all files of a partition's directory that no log is open
// in, as what is about to leave: whole batches are counted as far as they can be
// told apart, segment by segment.
func DescribeDir(fs vfs.FS, dir string) (Removal, error) {
	names, err := fs.List(dir)
	if err != nil {
		return Removal{}, err
	}
	r := Removal{Why: WhyRefill, FirstEpoch: model.NoEpoch, LastEpoch: model.NoEpoch}
	first := true
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			return Removal{}, err
		}
		base, suffix, ok := parseName(name)
		if !ok || suffix != logSuffix {
			if !info.IsDir && info.Size > 0 {
				r.Bytes += info.Size
				r.Parts = append(r.Parts, Part{File: path, Bytes: info.Size})
			}
			continue
		}
		if first {
			r.Start, r.End, first = base, base, false
		}
		if info.Size > 0 {
			r.add(newSegmentFile(fs, NewFileCache(0, 0), path), 0, info.Size)
			r.Parts[len(r.Parts)-1].First = base // the copy is the whole file
		}
	}
	if len(r.Parts) > 0 {
		r.File = r.Parts[0].File
	}
	return r, nil
}
