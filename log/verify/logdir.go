package verify

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// Ends are the bounds of the logs in one directory, by partition.
type Ends map[model.TopicPartition]*Report

// LogDir checks the small files of a log directory against the logs in it. The
// error is one of the disk.
func LogDir(files vfs.FS, dir string, logs Ends) ([]Finding, error) {
	var found findings
	for _, c := range []struct {
		file string
		// above judges an offset that lies above the log's end.
		above func(file string, tp model.TopicPartition, o, end model.Offset)
	}{
		{checkpoint.RecoveryPointFile, func(file string, tp model.TopicPartition, o, end model.Offset) {
			found.add(Damage, file, -1, end, "%v was durable up to %d, and ends at %d", tp, o, end)
		}},
		{checkpoint.LogStartFile, func(file string, tp model.TopicPartition, o, end model.Offset) {
			found.add(Derived, file, -1, end, "%v starts at %d, and ends at %d: all of it was deleted", tp, o, end)
		}},
		{checkpoint.HighWatermarkFile, func(file string, tp model.TopicPartition, o, end model.Offset) {
			found.add(Note, file, -1, end, "%v was replicated up to %d, and ends at %d", tp, o, end)
		}},
		{checkpoint.CleanerFile, func(file string, tp model.TopicPartition, o, end model.Offset) {
			found.add(Derived, file, -1, end, "%v was compacted up to %d, and ends at %d", tp, o, end)
		}},
	} {
		path := filepath.Join(dir, c.file)
		offsets, err := checkpoint.ReadOffsets(files, path)
		var bad *checkpoint.FormatError
		if errors.As(err, &bad) {
			found.add(Derived, c.file, -1, model.NoOffset, "%v", bad)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, tp := range slices.SortedFunc(maps.Keys(offsets), byName) {
			r := logs[tp]
			switch {
			case r == nil:
				found.add(Note, c.file, -1, model.NoOffset, "%v has no directory here", tp)
			case offsets[tp] > r.End:
				c.above(c.file, tp, offsets[tp], r.End)
			}
		}
	}
	_, ok, err := checkpoint.ReadMetaProperties(files, filepath.Join(dir, checkpoint.MetaPropertiesFile))
	var bad *checkpoint.FormatError
	switch {
	case errors.As(err, &bad):
		found.add(Damage, checkpoint.MetaPropertiesFile, -1, model.NoOffset, "%v: it is not known whose directory this is", bad)
	case err != nil:
		return nil, err
	case !ok:
		found.add(Note, checkpoint.MetaPropertiesFile, -1, model.NoOffset, "missing: no broker has used this directory")
	}
	return found.list, nil
}

func byName(a, b model.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Place is what a path on the command line turns out to be.
type Place struct {
	// Dir is a log directory, "" if a partition's directory was named alone.
	Dir string
	// Partitions are the partitions' directories.
	Partitions []string
}

// ErrNoLogs is returned for a path under which there is no partition.
var ErrNoLogs = errors.New("there is no partition's directory here")

// Find says what is at a path: a partition's directory, a log directory, or a
// data directory that holds one.
func Find(files vfs.FS, path string) (Place, error) {
	names, err := files.List(path)
	if err != nil {
		return Place{}, err
	}
	p := Place{Dir: path}
	for _, name := range names {
		if _, suffix, ok := numbered(name); ok && suffix == logSuffix {
			return Place{Partitions: []string{path}}, nil
		}
		if _, suffix, ok := log.ParseDirName(name); ok && suffix == "" {
			if info, err := files.Stat(filepath.Join(path, name)); err != nil {
				return Place{}, err
			} else if info.IsDir {
				p.Partitions = append(p.Partitions, filepath.Join(path, name))
			}
		}
	}
	if len(p.Partitions) > 0 {
		return p, nil
	}
	inner := filepath.Join(path, "log")
	if info, err := files.Stat(inner); err == nil && info.IsDir {
		return Find(files, inner)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Place{}, err
	}
	return Place{}, ErrNoLogs
}
