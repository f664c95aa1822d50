package quorum

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// index and offset of an entry: the bootstrap snapshot stands for index 1 and
// offset 0.
func indexOf(o model.Offset) uint64 { return uint64(o) + 1 }
func offsetOf(i uint64) model.Offset {
	return model.Offset(i) - 1
}

// listSnapshots returns the snapshots of dir by name, newest first.
func listSnapshots(fs vfs.FS, dir string) ([]model.OffsetAndEpoch, error) {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []model.OffsetAndEpoch
	for _, n := range names {
		if at, ok := metadata.ParseSnapshotName(n); ok {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b model.OffsetAndEpoch) int {
		return int(min(1, max(-1, b.Offset-a.Offset)))
	})
	return all, nil
}

// readSnapshot reads and checks one snapshot.
func readSnapshot(fs vfs.FS, dir string, at model.OffsetAndEpoch) (metadata.SnapshotHeader, *metadata.Image, error) {
	name := filepath.Join(dir, metadata.SnapshotName(at))
	b, err := vfs.ReadFile(fs, name)
	if err != nil {
		return metadata.SnapshotHeader{}, nil, err
	}
	h, m, err := metadata.ReadSnapshot(b)
	if err != nil {
		return h, nil, fmt.Errorf("%s: %w", name, err)
	}
	if h.At != at {
		return h, nil, fmt.Errorf("%s holds the snapshot at %s", name, h.At)
	}
	return h, m, nil
}

// writeSnapshot makes a snapshot durable under its name.
func writeSnapshot(fs vfs.FS, dir string, h metadata.SnapshotHeader, m *metadata.Image) (size int, err error) {
	b := metadata.AppendSnapshot(nil, h, m)
	return len(b), vfs.WriteFileAtomic(fs, filepath.Join(dir, metadata.SnapshotName(h.At)), b)
}
