package rescue

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/scan"
	"github.com/tidemark/tidemark/protocol/record"
)

// metadataDir is the directory of Kafka's metadata log in a log directory.
const metadataDir = "__cluster_metadata-0"

// known is what a Kafka cluster's metadata says of its topics, as far as a
// rescue needs it.
type known struct {
	topics map[model.TopicID]*knownTopic
}

type knownTopic struct {
	name       string
	partitions int32
	configs    map[string]string
}

// named returns the topic of a name, which is the last one that was given it.
func (k *known) named(name string) (model.TopicID, *knownTopic) {
	for id, t := range k.topics { // order-free: live names are unique
		if t.name == name {
			return id, t
		}
	}
	return model.NoTopicID, nil
}

// readMetadata reads Kafka's metadata log in a log directory: its newest snapshot
// and what follows. Every broker has one, controller or not; nil if there is none,
// as in the time of ZooKeeper. Bytes that can't be read end the reading: what is
// known up to there counts.
func readMetadata(fs vfs.FS, logDir string) (*known, error) {
	dir := filepath.Join(logDir, metadataDir)
	names, err := fs.List(dir)
	if err != nil {
		return nil, nil // the caller has listed logDir: there is none
	}
	k := &known{topics: map[model.TopicID]*knownTopic{}}
	at := model.Offset(0)
	var snapshot string
	for _, name := range names { // sorted: the last one is the newest
		var end, epoch int64
		if n, err := fmt.Sscanf(name, "%020d-%010d.checkpoint", &end, &epoch); err == nil && n == 2 && strings.HasSuffix(name, ".checkpoint") {
			snapshot, at = name, model.Offset(end)
		}
	}
	if snapshot != "" {
		if err := k.read(fs, filepath.Join(dir, snapshot), 0); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			if err := k.read(fs, filepath.Join(dir, name), at); err != nil {
				return nil, err
			}
		}
	}
	return k, nil
}

// read takes in the batches of a file from an offset on.
func (k *known) read(fs vfs.FS, path string, from model.Offset) (err error) {
	src, err := scan.Open(fs, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	for pos := int64(0); pos < src.Size(); {
		b, why, err := src.Batch(pos)
		if err != nil {
			return err
		}
		if why != "" || b.CheckCRC() != nil {
			return nil
		}
		pos += int64(len(b))
		if b.IsControl() || b.LastOffset() < from {
			continue
		}
		_ = b.Each(record.DefaultDecompressedMax, func(r *record.Record) error {
			if r.Offset >= from {
				k.apply(r.Value)
			}
			return nil
		})
	}
	return nil
}

// The records of Kafka's metadata log that say something of topics: their keys.
const (
	keyTopic       = 2
	keyPartition   = 3
	keyConfig      = 4
	keyRemoveTopic = 9
)

// resourceTopic is the type of a topic among config resources.
const resourceTopic = 2

// apply takes one metadata record in. Source: the frame of Kafka's
// MetadataRecordSerde (frame version 1, key, version, then the message in its
// flexible form) and the message definitions of the keys above, whose first
// fields are the same in all versions.
func (k *known) apply(value []byte) {
	r := kbin.Reader{Src: value}
	frame, key, _ := r.Uvarint(), r.Uvarint(), r.Uvarint()
	if frame != 1 || !r.Ok() {
		return
	}
	switch key {
	case keyTopic:
		name, id := r.CompactString(), model.TopicID(r.Uuid())
		if r.Ok() {
			k.topic(id).name = name
		}
	case keyPartition:
		n, id := r.Int32(), model.TopicID(r.Uuid())
		if r.Ok() && n >= 0 {
			k.topic(id).partitions = max(k.topic(id).partitions, n+1)
		}
	case keyRemoveTopic:
		if id := model.TopicID(r.Uuid()); r.Ok() {
			delete(k.topics, id)
		}
	case keyConfig:
		kind, resource, name, value := r.Int8(), r.CompactString(), r.CompactString(), r.CompactNullableString()
		if _, t := k.named(resource); r.Ok() && kind == resourceTopic && t != nil {
			if value == nil {
				delete(t.configs, name)
			} else {
				t.configs[name] = *value
			}
		}
	}
}

func (k *known) topic(id model.TopicID) *knownTopic {
	t := k.topics[id]
	if t == nil {
		t = &knownTopic{configs: map[string]string{}}
		k.topics[id] = t
	}
	return t
}
