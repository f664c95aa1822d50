package broker

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// recoverTopics tells a controller whose log is damaged which topics the
// directories hold, by their partition.metadata. Two topics of one name cannot
// both be right; the one found first stays and the other's directories are set
// aside when the partitions are loaded.
func (b *Broker) recoverTopics() []quorum.RecoveredTopic {
	found := make(map[string]*quorum.RecoveredTopic)
	for _, d := range b.dirs.All() {
		if !d.Online() {
			continue
		}
		names, err := b.fs.List(d.Path())
		if err != nil {
			continue // the directory's own failure is told elsewhere
		}
		for _, name := range names {
			tp, suffix, ok := log.ParseDirName(name)
			if !ok || suffix != "" || tp.Topic == quorum.TopicName {
				continue
			}
			meta, ok, err := checkpoint.ReadPartitionMetadata(b.fs, filepath.Join(d.Path(), name, checkpoint.PartitionMetadataFile))
			if err != nil || !ok {
				continue
			}
			t := found[tp.Topic]
			if t == nil {
				t = &quorum.RecoveredTopic{Name: tp.Topic, ID: meta.TopicID}
				found[tp.Topic] = t
			}
			if i, known := slices.BinarySearch(t.Partitions, tp.Partition); t.ID == meta.TopicID && !known {
				t.Partitions = slices.Insert(t.Partitions, i, tp.Partition)
				t.LeaderEpochs = slices.Insert(t.LeaderEpochs, i, b.lastEpoch(filepath.Join(d.Path(), name)))
			}
		}
	}
	out := make([]quorum.RecoveredTopic, 0, len(found))
	for _, t := range found { // order-free: sorted below
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b quorum.RecoveredTopic) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// lastEpoch returns the highest leader epoch that a partition's epoch file
// knows, 0 if it can't be read: the log's own batches will say more.
func (b *Broker) lastEpoch(dir string) model.LeaderEpoch {
	entries, err := checkpoint.ReadEpochs(b.fs, filepath.Join(dir, checkpoint.EpochFile))
	if err != nil || len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].Epoch
}
