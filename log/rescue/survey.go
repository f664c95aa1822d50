package rescue

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/scan"
)

// Replica is a partition's directory in one of the sources.
type Replica struct {
	Dir       string
	Partition model.TopicPartition
	// TopicID is NoTopicID in a directory of Kafka's before 2.8.
	TopicID model.TopicID
	// Last is where the whole batches of its last segment end, and their last
	// leader epoch. Of two replicas the one with the greater epoch, then the
	// greater offset, knows more.
	Last model.OffsetAndEpoch
	// Bytes is what has to be copied.
	Bytes int64

	// What the checkpoints of its log directory say, 0 without.
	recoveryPoint, logStart, highWatermark, cleaned model.Offset
	files                                           []string
}

// Topic is one to import.
type Topic struct {
	Name string
	ID   model.TopicID
	// Partitions is their number; those without a replica are made empty.
	Partitions int32
	// Configs are the settings that the source's metadata tell, or what is safe
	// if they don't.
	Configs map[string]string
	// Told: the source's metadata know the topic.
	Told bool
	// Replicas are the chosen ones, by number.
	Replicas []Replica
}

// Plan is what an import would do.
type Plan struct {
	// ClusterID is that of the sources, "" if they don't tell.
	ClusterID string
	Topics    []Topic // by name
	// Bytes is the size of all that is chosen.
	Bytes int64
	// Left are directories that are not imported, with the reason.
	Left []Left
}

// Left is a directory that is not imported.
type Left struct{ Dir, Why string }

// Look surveys log directories of stopped brokers of one cluster, and plans the
// import. It reads only. The error is one of the disk, or says what of the sources
// can't be: a process that uses one, two clusters.
func Look(fs vfs.FS, sources []string) (*Plan, error) {
	s := &survey{fs: fs, plan: &Plan{}, best: map[model.TopicPartition]Replica{}}
	for _, dir := range sources {
		if err := s.source(dir); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
	}
	s.choose()
	return s.plan, nil
}

type survey struct {
	fs   vfs.FS
	plan *Plan
	meta *known
	all  []Replica
	best map[model.TopicPartition]Replica
}

// ErrInUse is returned for a source that a running broker has locked.
var ErrInUse = errors.New("a running broker uses this directory: stop it first")

// source looks at one log directory.
func (s *survey) source(dir string) error {
	names, err := s.fs.List(dir)
	if err != nil {
		return err
	}
	if held, err := s.fs.Locked(filepath.Join(dir, checkpoint.LockFile)); err != nil || held {
		return errors.Join(err, ErrInUse)
	}
	if err := s.cluster(dir); err != nil {
		return err
	}
	if s.meta == nil {
		if s.meta, err = readMetadata(s.fs, dir); err != nil {
			return err
		}
	}
	marks, err := readMarks(s.fs, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		tp, suffix, ok := log.ParseDirName(name)
		path := filepath.Join(dir, name)
		switch {
		case !ok || name == metadataDir:
			continue
		case suffix != "":
			s.leave(path, "it was deleted, or on its way here or from here, when the broker stopped")
			continue
		}
		r, err := s.replica(path, tp)
		if err != nil {
			return err
		}
		marks.of(tp, &r)
		s.all = append(s.all, r)
	}
	return nil
}

func (s *survey) leave(dir, why string) { s.plan.Left = append(s.plan.Left, Left{dir, why}) }

// cluster takes the cluster's id from a source's meta.properties. One of
// ZooKeeper's time doesn't read as ours do, and needn't.
func (s *survey) cluster(dir string) error {
	m, ok, err := checkpoint.ReadMetaProperties(s.fs, filepath.Join(dir, checkpoint.MetaPropertiesFile))
	var bad *checkpoint.FormatError
	switch {
	case errors.As(err, &bad) || err == nil && !ok:
		return nil
	case err != nil:
		return err
	case s.plan.ClusterID == "":
		s.plan.ClusterID = m.ClusterID
	case s.plan.ClusterID != m.ClusterID:
		return fmt.Errorf("it is of cluster %s, another source of cluster %s", m.ClusterID, s.plan.ClusterID)
	}
	return nil
}

// marks are the checkpoints of a log directory.
type marks struct{ recoveryPoint, logStart, highWatermark, cleaned checkpoint.Offsets }

func readMarks(fs vfs.FS, dir string) (marks, error) {
	var m marks
	for file, into := range map[string]*checkpoint.Offsets{ // order-free
		checkpoint.RecoveryPointFile: &m.recoveryPoint, checkpoint.LogStartFile: &m.logStart,
		checkpoint.HighWatermarkFile: &m.highWatermark, checkpoint.CleanerFile: &m.cleaned,
	} {
		offsets, err := checkpoint.ReadOffsets(fs, filepath.Join(dir, file))
		var bad *checkpoint.FormatError
		if err != nil && !errors.As(err, &bad) {
			return m, err
		}
		*into = offsets // a bad one says nothing
	}
	return m, nil
}

func (m *marks) of(tp model.TopicPartition, r *Replica) {
	r.recoveryPoint, r.logStart = m.recoveryPoint[tp], m.logStart[tp]
	r.highWatermark, r.cleaned = m.highWatermark[tp], m.cleaned[tp]
}

// replica looks at a partition's directory.
func (s *survey) replica(dir string, tp model.TopicPartition) (Replica, error) {
	r := Replica{Dir: dir, Partition: tp, Last: model.OffsetAndEpoch{Epoch: model.NoEpoch}}
	names, err := s.fs.List(dir)
	if err != nil {
		return r, err
	}
	meta, _, err := checkpoint.ReadPartitionMetadata(s.fs, filepath.Join(dir, checkpoint.PartitionMetadataFile))
	var bad *checkpoint.FormatError
	if err != nil && !errors.As(err, &bad) {
		return r, err
	}
	r.TopicID = meta.TopicID
	var segments []string
	for _, name := range names {
		info, err := s.fs.Stat(filepath.Join(dir, name))
		if err != nil {
			return r, err
		}
		if info.IsDir || filepath.Ext(name) == ".deleted" {
			continue
		}
		r.files = append(r.files, name)
		r.Bytes += info.Size
		if filepath.Ext(name) == ".log" {
			segments = append(segments, filepath.Join(dir, name))
		}
	}
	for i := len(segments) - 1; i >= 0 && r.Last.Epoch == model.NoEpoch; i-- {
		if err := s.end(segments[i], &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// end finds where the batches of a segment end, by their headers.
func (s *survey) end(path string, r *Replica) (err error) {
	src, err := scan.Open(s.fs, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	for pos := int64(0); ; {
		b, why, err := src.Batch(pos)
		if err != nil || why != "" || b.BaseOffset() < r.Last.Offset || b.LeaderEpoch() < r.Last.Epoch {
			return err
		}
		r.Last = model.OffsetAndEpoch{Offset: b.NextOffset(), Epoch: b.LeaderEpoch()}
		pos += int64(len(b))
	}
}

// before reports whether b knows more than a.
func before(a, b Replica) bool {
	return cmp.Or(cmp.Compare(a.Last.Epoch, b.Last.Epoch), cmp.Compare(a.Last.Offset, b.Last.Offset)) < 0
}
