package broker

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/rescue"
	"github.com/tidemark/tidemark/partition/host"
)

// recoverTopics tells a controller whose log is damaged which topics the
// directories hold, by their partition.metadata; what was never written to may have
// none, and belongs to the topic of its name. Two topics of one name cannot
// both be right; the one found first stays and the other's directories are set
// aside when the partitions are loaded.
func (b *Broker) recoverTopics() []quorum.RecoveredTopic {
	found := make(map[string]*quorum.RecoveredTopic)
	var nameless []model.TopicPartition
	for _, d := range b.dirs.All() {
		if !d.Online() {
			continue
		}
		names, err := b.fs.List(d.Path())
		if err != nil {
			continue // the directory's own failure is told elsewhere
		}
		imported := b.imported(d)
		for _, name := range names {
			tp, suffix, ok := log.ParseDirName(name)
			if !ok || suffix != "" || tp.Topic == quorum.TopicName {
				continue
			}
			meta, ok, err := checkpoint.ReadPartitionMetadata(b.fs, filepath.Join(d.Path(), name, checkpoint.PartitionMetadataFile))
			if err == nil && !ok && b.holdsNothing(filepath.Join(d.Path(), name)) {
				nameless = append(nameless, tp)
			}
			if err != nil || !ok {
				continue
			}
			t := found[tp.Topic]
			if t == nil {
				t = &quorum.RecoveredTopic{Name: tp.Topic, ID: meta.TopicID, Configs: b.importedConfigs(imported, tp.Topic, meta.TopicID)}
				found[tp.Topic] = t
			}
			if t.ID == meta.TopicID {
				addRecovered(t, tp.Partition, b.lastEpoch(filepath.Join(d.Path(), name)))
			}
		}
	}
	for _, tp := range nameless {
		if t := found[tp.Topic]; t != nil {
			addRecovered(t, tp.Partition, 0)
		}
	}
	out := make([]quorum.RecoveredTopic, 0, len(found))
	for _, t := range found { // order-free: sorted below
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b quorum.RecoveredTopic) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// addRecovered adds a partition that is not known yet, in order.
func addRecovered(t *quorum.RecoveredTopic, partition int32, epoch model.LeaderEpoch) {
	if i, known := slices.BinarySearch(t.Partitions, partition); !known {
		t.Partitions = slices.Insert(t.Partitions, i, partition)
		t.LeaderEpochs = slices.Insert(t.LeaderEpochs, i, epoch)
	}
}

// holdsNothing says whether a partition's directory holds no byte of a log.
func (b *Broker) holdsNothing(dir string) bool {
	names, err := b.fs.List(dir)
	if err != nil {
		return false
	}
	for _, name := range names {
		info, err := b.fs.Stat(filepath.Join(dir, name))
		if err != nil || filepath.Ext(name) == ".log" && info.Size > 0 {
			return false
		}
	}
	return true
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

// imported returns the manifest of what was imported into a directory, nil without
// one that can be read.
func (b *Broker) imported(d *host.Dir) *rescue.Manifest {
	m, err := rescue.ReadManifest(b.fs, d.Path())
	if err != nil {
		b.logger.Error("what was imported is not known: its topics get the settings of new ones", zap.Error(err))
	}
	return m
}

// importedConfigs returns the settings that a topic was imported with, but for
// those that mean nothing here.
func (b *Broker) importedConfigs(m *rescue.Manifest, topic string, id model.TopicID) map[string]string {
	configs := map[string]string{}
	for key, value := range m.Config(id) { // order-free
		if err := config.ValidateTopic(key, value); err != nil {
			b.logger.Warn("a setting of an imported topic is left out", zap.String("topic", topic), zap.Error(err))
			continue
		}
		configs[key] = value
	}
	return configs
}

// metadataRecovered tells what was lost of a metadata log that was damaged, or
// what was made for logs that were imported.
func (b *Broker) metadataRecovered(r quorum.Receipt) {
	made := []zap.Field{zap.Stringer("continues_at", r.At), zap.Strings("topics_found", r.Topics), zap.Int("partitions_found", r.Partitions)}
	for _, d := range b.dirs.All() {
		if m := b.imported(d); m != nil && errors.Is(r.Cause, quorum.ErrWiped) {
			b.logger.Info("metadata was made for what was imported", made...)
			return
		}
	}
	b.logger.Error("the metadata log was damaged and has been rebuilt",
		append(made, zap.Error(r.Cause), zap.Stringer("believed_up_to", r.Base), zap.String("kept", r.Kept))...)
}
