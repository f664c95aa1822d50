package quorum

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/protocol/record"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const (
	// rebuiltDir, beside the metadata directory, is where a recovery is prepared;
	// keptDir is where, in a directory of its own, the old files are kept. No
	// partition directory begins with a dot.
	rebuiltDir = ".metadata-rebuilt"
	keptDir    = ".kept"
	// offsetGap is how far the offset moves on beyond all that was seen, so that
	// offsets which were lost with the damage are not used again: brokers refuse
	// an image older than the one they have acted on.
	offsetGap = 1_000_000
	// producerIDGap does the same for producer ids.
	producerIDGap = 1_000_000
)

// Receipt says what a recovery of the metadata log of a single voter used, made
// up and set aside.
type Receipt struct {
	// Cause is what was wrong.
	Cause error
	// Base is the entry up to which the old metadata could be believed;
	// NoOffset if none of it.
	Base model.OffsetAndEpoch
	// At is where the metadata continues.
	At model.OffsetAndEpoch
	// Topics and Partitions were found in the log directories only.
	Topics     []string
	Partitions int
	// Kept is the directory with the old files, untouched; "" if there was none.
	Kept string
}

// recoverVoter rebuilds the metadata of a single voter from the newest readable
// snapshot, the valid entries behind it and the directories of its partitions.
// Everything is prepared aside; the old files are renamed, not changed.
func recoverVoter(o Config, dir string, now model.Now, cause error) (*Receipt, error) {
	base, highest, term := salvage(o, dir)
	r := &Receipt{Cause: cause, Base: base.At()}
	r.At = model.OffsetAndEpoch{Offset: highest + offsetGap, Epoch: term + 1}
	m, err := complete(o, base, r)
	if err != nil {
		return nil, err
	}
	rebuilt := filepath.Join(filepath.Dir(dir), rebuiltDir)
	if err := o.FS.RemoveAll(rebuilt); err != nil {
		return nil, err
	}
	if err := writeFirst(o, rebuilt, now, m); err != nil {
		return nil, err
	}
	if r.Kept, err = setAside(o.FS, dir); err != nil {
		return nil, err
	}
	return r, finishRecovery(o.FS, dir)
}

// finishRecovery gives a prepared directory its name, if there is one and the
// name is free; a crash may have come in between.
func finishRecovery(fs vfs.FS, dir string) error {
	rebuilt := filepath.Join(filepath.Dir(dir), rebuiltDir)
	if _, err := fs.Stat(rebuilt); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if _, err := fs.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return fs.RemoveAll(rebuilt) // the old one was not yet set aside: begin again
	}
	if state, err := survey(fs, rebuilt); err != nil || state != bootstrapped && state != observing {
		return errors.Join(err, fs.RemoveAll(rebuilt))
	}
	if err := fs.Rename(rebuilt, dir); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir(dir))
}

// setAside renames dir to a name that is free.
func setAside(fs vfs.FS, dir string) (string, error) {
	if _, err := fs.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	parent := filepath.Join(filepath.Dir(dir), keptDir)
	if err := fs.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		kept := filepath.Join(parent, fmt.Sprintf("%s.%d", filepath.Base(dir), n))
		if _, err := fs.Stat(kept); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := fs.Rename(dir, kept); err != nil {
			return "", err
		}
		return kept, errors.Join(fs.SyncDir(parent), fs.SyncDir(filepath.Dir(dir)))
	}
}

// salvage returns the newest image that can be believed, the highest offset that
// was seen anywhere, and the highest term. It reads only.
func salvage(o Config, dir string) (m *metadata.Image, highest model.Offset, term model.LeaderEpoch) {
	m = metadata.Empty()
	if h, err := readHardState(o.FS, dir); err == nil {
		highest, term = model.Offset(h.Commit), model.LeaderEpoch(h.Term)
	}
	all, err := listSnapshots(o.FS, dir)
	if err != nil {
		return m, highest, term
	}
	for _, at := range all {
		highest, term = max(highest, at.Offset), max(term, at.Epoch)
		if m.At().Offset != model.NoOffset {
			continue
		}
		if _, image, err := readSnapshot(o.FS, dir, at); err == nil {
			m = image
		}
	}
	segments(o.FS, dir, func(raw record.Batch) bool {
		highest, term = max(highest, raw.LastOffset()), max(term, raw.LeaderEpoch())
		return true
	})
	next := m.At().Offset.Next()
	segments(o.FS, dir, func(raw record.Batch) bool {
		if raw.BaseOffset() < next {
			return true
		}
		recs, err := recordsOf(raw)
		if raw.BaseOffset() != next || err != nil {
			return false
		}
		// Applied one by one: a record that does not fit must not spoil the rest.
		one, _, err := metadata.Apply(m, model.OffsetAndEpoch{Offset: next, Epoch: raw.LeaderEpoch()}, recs)
		if err != nil {
			return false
		}
		m, next = one, next.Next()
		return true
	})
	return m, highest, term
}

// recordsOf returns the metadata records of a batch; none for control batches.
func recordsOf(raw record.Batch) ([]metadata.Record, error) {
	e, err := entryOf(raw)
	if err != nil {
		return nil, err
	}
	return entryRecords(e)
}

// entryRecords returns the metadata records of an entry. A change of the voters
// carries the record of the new set with it: both take effect or none.
func entryRecords(e *raftpb.Entry) ([]metadata.Record, error) {
	data := e.GetData()
	if e.GetType() != raftpb.EntryNormal {
		cc, err := confChange(e)
		if err != nil {
			return nil, err
		}
		data = cc.AsV2().GetContext()
	}
	if len(data) == 0 {
		return nil, nil
	}
	entry, err := metadata.DecodeEntry(data)
	return entry.Records, err
}

// confChange decodes a change of the voter set.
func confChange(e *raftpb.Entry) (raftpb.ConfChangeI, error) {
	if e.GetType() == raftpb.EntryConfChange {
		v1 := new(raftpb.ConfChange)
		if err := proto.Unmarshal(e.GetData(), v1); err != nil {
			return nil, fmt.Errorf("voter change at index %d: %w", e.GetIndex(), err)
		}
		return v1, nil
	}
	v2 := new(raftpb.ConfChangeV2)
	if err := proto.Unmarshal(e.GetData(), v2); err != nil {
		return nil, fmt.Errorf("voter change at index %d: %w", e.GetIndex(), err)
	}
	return v2, nil
}

// segments calls fn with each readable batch of the segment files, in order,
// until fn returns false. It goes on with the next file behind a bad byte.
func segments(fs vfs.FS, dir string, fn func(record.Batch) bool) {
	names, err := fs.List(dir)
	if err != nil {
		return
	}
	for _, n := range names {
		if filepath.Ext(n) != ".log" {
			continue
		}
		b, err := vfs.ReadFile(fs, filepath.Join(dir, n))
		if err != nil {
			continue
		}
		for it := record.NewIter(b); it.Next(); {
			if it.Batch().CheckCRC() != nil {
				break
			}
			if !fn(it.Batch()) {
				return
			}
		}
	}
}

// complete returns m with what the disk has and m lacks, and with the identity of
// the node if even that was lost. Numbers that may have been given out after
// what could be read are skipped: producer ids by a wide margin, leader epochs by
// those that the partitions' own files hold.
func complete(o Config, m *metadata.Image, r *Receipt) (*metadata.Image, error) {
	var recs []metadata.Record
	if m.ClusterID() == "" {
		if o.ClusterID == "" || o.DirectoryID == (metadata.DirectoryID{}) {
			return nil, fmt.Errorf("cluster id %q, directory id %s: too little is left to go on: %w", o.ClusterID, o.DirectoryID, r.Cause)
		}
		recs = append(recs, &metadata.Cluster{ID: o.ClusterID})
		for _, f := range o.Features {
			recs = append(recs, &metadata.FeatureLevel{Feature: f})
		}
	}
	if len(m.Voters()) == 0 {
		recs = append(recs, &metadata.Voters{Voters: []metadata.Voter{{Node: o.NodeID, Directory: o.DirectoryID, Listeners: o.Listeners}}})
	}
	found := o.Recover()
	epochs := map[model.TopicIDPartition]model.LeaderEpoch{}
	for _, t := range found {
		for i, p := range t.Partitions {
			epochs[model.TopicIDPartition{TopicID: t.ID, Partition: p}] = t.epoch(i)
		}
	}
	for rec := range m.Records() {
		switch rec := rec.(type) {
		case *metadata.PartitionRecord:
			e := epochs[model.TopicIDPartition{TopicID: rec.TopicID, Partition: rec.Partition}]
			rec.LeaderEpoch = max(rec.LeaderEpoch, e)
		case *metadata.ProducerIDs:
			continue
		}
		recs = append(recs, rec)
	}
	recs = append(recs, &metadata.ProducerIDs{Broker: o.NodeID, Epoch: model.NoBrokerEpoch, Next: m.NextProducerID() + producerIDGap})
	names := map[string]bool{}
	for _, t := range found {
		if !names[t.Name] { // of two topics of one name the first stays
			names[t.Name] = true
			recs = append(recs, recoveredTopic(o.NodeID, m, t, r)...)
		}
	}
	m, _, err := metadata.Apply(metadata.Empty(), r.At, recs)
	return m, err
}

// recoveredTopic returns the records that m lacks of one topic found on disk. A
// name that m gives to another topic is left to that one: the directory is
// older. The node itself is the only replica that is known.
func recoveredTopic(node model.BrokerID, m *metadata.Image, t RecoveredTopic, r *Receipt) (recs []metadata.Record) {
	have := 0
	switch old := m.TopicByID(t.ID); {
	case old != nil:
		have = len(old.Partitions)
	case t.Name == "" || t.ID == model.NoTopicID || m.Topic(t.Name) != nil || len(t.Partitions) == 0:
		return nil
	default:
		recs = append(recs, &metadata.TopicRecord{Name: t.Name, ID: t.ID})
		for _, key := range slices.Sorted(maps.Keys(t.Configs)) {
			value := t.Configs[key]
			recs = append(recs, &metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.TopicResource, Name: t.Name}, Key: key, Value: &value})
		}
	}
	for _, p := range t.Partitions {
		// Numbers without a directory lie in between; they must exist all the same.
		for ; have <= int(p); have++ {
			reg := metadata.PartitionRegistration{
				Replicas: []model.BrokerID{node}, LastKnown: []model.BrokerID{node}, Leader: model.NoLeader,
			}
			if i := slices.Index(t.Partitions, int32(have)); i >= 0 {
				reg.LeaderEpoch = t.epoch(i)
				r.Partitions++
			}
			recs = append(recs, &metadata.PartitionRecord{TopicID: t.ID, Partition: int32(have), PartitionRegistration: reg})
		}
	}
	if len(recs) > 0 {
		r.Topics = append(r.Topics, t.Name)
	}
	return recs
}

// logReport tells what the log had to cut at its end: a crash's torn tail, which
// nobody was told of.
func (n *Node) logReport(r log.LoadReport) {
	for _, rm := range r.Removed {
		n.logger.Warn("metadata log: unfinished end removed", removalFields(rm)...)
	}
}
