package rescue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// Target is the node that imports.
type Target struct {
	// LogDir is its first log directory, which is empty or not there.
	LogDir string
	NodeID model.BrokerID
	// ClusterID is used if the sources have none.
	ClusterID string
	// NewID draws ids: of the directory, and of topics that have none.
	NewID func() [16]byte
	// Now is written into the manifest.
	Now model.Timestamp
	// Progress, if set, is told of each partition that was copied.
	Progress func(r Replica)
}

// ErrNotEmpty is returned for a target that holds something else.
var ErrNotEmpty = errors.New("the log directory is in use already: an import needs an empty one")

// ErrUnfinished says that an import into a directory was interrupted.
var ErrUnfinished = errors.New("an import into this log directory was interrupted: begin it again with --import, or empty the directory")

// Done returns the manifest of a log directory whose import is complete; nil if
// nothing was imported into it. One that was interrupted is ErrUnfinished.
func Done(fs vfs.FS, logDir string) (*Manifest, error) {
	m, err := ReadManifest(fs, logDir)
	if err == nil && m != nil && !m.Complete {
		return nil, fmt.Errorf("%s: %w", logDir, ErrUnfinished)
	}
	return m, err
}

// Import copies what was planned. The manifest is written first, and again when
// all is there: a directory whose manifest is not complete is that of an import
// which was interrupted, and is begun anew. One that is complete is never touched,
// whatever else may be missing in it.
func (p *Plan) Import(fs vfs.FS, sources []string, t Target) (*Manifest, error) {
	if err := p.prepare(fs, t); err != nil {
		return nil, err
	}
	p.name(t)
	m := p.manifest(sources, t)
	if err := m.write(fs, t.LogDir); err != nil {
		return nil, err
	}
	for i := range p.Topics {
		if err := p.Topics[i].copyTo(fs, t); err != nil {
			return nil, err
		}
	}
	if err := p.marks(fs, t.LogDir); err != nil {
		return nil, err
	}
	if err := fs.SyncDir(t.LogDir); err != nil {
		return nil, err
	}
	err := checkpoint.WriteMetaProperties(fs, filepath.Join(t.LogDir, checkpoint.MetaPropertiesFile), checkpoint.MetaProperties{
		ClusterID: m.ClusterID, NodeID: t.NodeID, DirectoryID: checkpoint.DirectoryID(t.NewID()),
	})
	if err != nil {
		return nil, err
	}
	m.Complete = true
	return m, m.write(fs, t.LogDir)
}

// write replaces the manifest, durably.
func (m *Manifest) write(fs vfs.FS, logDir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fs, filepath.Join(logDir, ManifestFile), append(text, '\n'))
}

// prepare makes sure that the target is empty and has room.
func (p *Plan) prepare(fs vfs.FS, t Target) error {
	if err := fs.MkdirAll(t.LogDir, 0o755); err != nil {
		return err
	}
	names, err := fs.List(t.LogDir)
	if err != nil {
		return err
	}
	if _, err := Done(fs, t.LogDir); err != nil && !errors.Is(err, ErrUnfinished) {
		return err
	} else if err == nil && len(names) > 0 {
		return fmt.Errorf("%s: %w", t.LogDir, ErrNotEmpty)
	}
	for _, name := range names {
		if _, _, ok := log.ParseDirName(name); ok { // a copy that was begun
			if err := fs.RemoveAll(filepath.Join(t.LogDir, name)); err != nil {
				return err
			}
		}
	}
	free, _, err := fs.Free(t.LogDir)
	if err != nil {
		return err
	}
	if free < p.Bytes {
		return fmt.Errorf("%s: %d bytes are free, the import needs %d", t.LogDir, free, p.Bytes)
	}
	return nil
}

// name gives ids to topics that have none.
func (p *Plan) name(t Target) {
	for i := range p.Topics {
		if p.Topics[i].ID == model.NoTopicID {
			p.Topics[i].ID = model.TopicID(t.NewID())
		}
	}
}

func (p *Plan) manifest(sources []string, t Target) *Manifest {
	m := &Manifest{Version: manifestVersion, ImportedAt: int64(t.Now), Sources: sources, ClusterID: p.ClusterID, Left: p.Left}
	if m.ClusterID == "" {
		m.ClusterID = t.ClusterID
	}
	if m.ClusterID == "" {
		m.ClusterID = model.TopicID(t.NewID()).String()
	}
	for _, topic := range p.Topics {
		mt := ManifestTopic{
			Name: topic.Name, ID: topic.ID.String(), Partitions: topic.Partitions, Configs: topic.Configs, Told: topic.Told,
			From: map[int32]string{},
		}
		for _, r := range topic.Replicas {
			mt.From[r.Partition.Partition] = r.Dir
		}
		m.Topics = append(m.Topics, mt)
	}
	return m
}

// copyTo makes the directories of all partitions, empty where there is no replica.
func (topic *Topic) copyTo(fs vfs.FS, t Target) error {
	from := map[int32]*Replica{}
	for i := range topic.Replicas {
		from[topic.Replicas[i].Partition.Partition] = &topic.Replicas[i]
	}
	for n := range topic.Partitions {
		dir := filepath.Join(t.LogDir, log.DirName(model.TopicPartition{Topic: topic.Name, Partition: n}))
		if err := fs.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if r := from[n]; r != nil {
			if err := r.copyTo(fs, dir); err != nil {
				return err
			}
			if t.Progress != nil {
				t.Progress(*r)
			}
		}
		meta := checkpoint.PartitionMetadata{TopicID: topic.ID}
		if err := checkpoint.WritePartitionMetadata(fs, filepath.Join(dir, checkpoint.PartitionMetadataFile), meta); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replica) copyTo(fs vfs.FS, dir string) error {
	for _, name := range r.files {
		if name == checkpoint.PartitionMetadataFile {
			continue
		}
		if err := copyFile(fs, filepath.Join(r.Dir, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil // the directory is synced with partition.metadata
}

// copyBytes is how much is read and written at once.
const copyBytes = 1 << 20

func copyFile(fs vfs.FS, from, to string) (err error) {
	src, err := fs.OpenFile(from, os.O_RDONLY, 0)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil // it has gone since the survey: an old index
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := fs.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	buf := make([]byte, copyBytes)
	for pos := int64(0); ; {
		n, readErr := src.ReadAt(buf, pos)
		if n > 0 {
			if _, err := dst.WriteAt(buf[:n], pos); err != nil {
				return fmt.Errorf("copy %s: %w", from, err)
			}
			pos += int64(n)
		}
		if readErr == io.EOF {
			return dst.Sync()
		}
		if readErr != nil {
			return fmt.Errorf("copy %s: %w", from, readErr)
		}
	}
}

// marks writes the checkpoints of all that was copied.
func (p *Plan) marks(fs vfs.FS, dir string) error {
	all := map[string]checkpoint.Offsets{}
	put := func(file string, r Replica, o model.Offset) {
		if all[file] == nil {
			all[file] = checkpoint.Offsets{}
		}
		if o > 0 {
			all[file][r.Partition] = o
		}
	}
	for _, t := range p.Topics {
		for _, r := range t.Replicas {
			put(checkpoint.RecoveryPointFile, r, r.recoveryPoint)
			put(checkpoint.LogStartFile, r, r.logStart)
			put(checkpoint.HighWatermarkFile, r, r.highWatermark)
			put(checkpoint.CleanerFile, r, r.cleaned)
		}
	}
	for file, offsets := range all { // order-free
		if err := checkpoint.WriteOffsets(fs, filepath.Join(dir, file), offsets); err != nil {
			return err
		}
	}
	return nil
}
