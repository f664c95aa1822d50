package dump

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/producer"
)

// producers shows a producer snapshot.
func (d *dumper) producers() error {
	b, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	entries, err := producer.ReadSnapshot(b)
	var bad *producer.SnapshotError
	if errors.As(err, &bad) {
		d.out.found(int64(bad.Pos), "%s", bad.Why)
	}
	for i := range entries {
		d.producer(&entries[i])
	}
	return nil
}

func (d *dumper) producer(e *producer.Entry) {
	p := &d.out
	p.begin("producer", "")
	p.num("producerId", int64(e.ProducerID))
	p.num("producerEpoch", int64(e.Epoch))
	p.num("coordinatorEpoch", int64(e.CoordinatorEpoch))
	p.optional("currentTxnFirstOffset", int64(e.TxnFirstOffset), e.HasOpenTxn())
	p.num("lastTimestamp", int64(e.LastTimestamp))
	for _, m := range e.Batches() {
		p.num("firstSequence", int64(m.FirstSeq))
		p.num("lastSequence", int64(m.LastSeq))
		p.num("lastOffset", int64(m.LastOffset))
		p.num("offsetDelta", int64(m.OffsetDelta))
		p.num("timestamp", int64(m.Timestamp))
	}
	p.end()
}

// offsets shows one of the offset checkpoints.
func (d *dumper) offsets() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	offsets, err := checkpoint.DecodeOffsets(d.path, text)
	if d.malformed(err, text) {
		return nil
	}
	tps := slices.SortedFunc(maps.Keys(offsets), func(a, b model.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for _, tp := range tps {
		d.out.begin("offset", "")
		d.out.bytes("topic", []byte(tp.Topic))
		d.out.num("partition", int64(tp.Partition))
		d.out.num("offset", int64(offsets[tp]))
		d.out.end()
	}
	return nil
}

// epochs shows a leader epoch checkpoint.
func (d *dumper) epochs() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	entries, err := checkpoint.DecodeEpochs(d.path, text)
	if d.malformed(err, text) {
		return nil
	}
	for _, e := range entries {
		d.out.begin("epoch", "")
		d.out.num("epoch", int64(e.Epoch))
		d.out.num("startOffset", int64(e.Start))
		d.out.end()
	}
	return nil
}

// partition shows a partition.metadata.
func (d *dumper) partition() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	m, err := checkpoint.DecodePartitionMetadata(d.path, text)
	if d.malformed(err, text) {
		return nil
	}
	d.out.begin("partitionMetadata", "")
	d.out.str("topicId", m.TopicID.String())
	d.out.end()
	return nil
}

// shutdown shows a clean-shutdown mark. What stands in it is never needed, so
// that content of another form is worth a note only.
func (d *dumper) shutdown() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	c, err := checkpoint.DecodeCleanShutdown(d.path, text)
	if err != nil {
		d.out.note(-1, "%v", err)
	}
	d.out.begin("cleanShutdown", "")
	d.out.optional("brokerEpoch", int64(c.BrokerEpoch), c.BrokerEpoch != model.NoBrokerEpoch)
	d.out.end()
	return nil
}

// meta shows a meta.properties.
func (d *dumper) meta() error {
	text, err := vfs.ReadFile(d.fs, d.path)
	if err != nil {
		return err
	}
	m, err := checkpoint.DecodeMetaProperties(d.path, text)
	if d.malformed(err, text) {
		return nil
	}
	d.out.begin("metaProperties", "")
	d.out.bytes("clusterId", []byte(m.ClusterID))
	d.out.num("nodeId", int64(m.NodeID))
	d.out.str("directoryId", m.DirectoryID.String())
	d.out.end()
	return nil
}

// rawLinesMax bounds how much of a malformed text file is shown.
const rawLinesMax = 1000

// malformed tells of a text file that has not its form, and shows its lines as
// they are. It reports whether err was of that kind.
func (d *dumper) malformed(err error, text []byte) bool {
	var bad *checkpoint.FormatError
	if !errors.As(err, &bad) {
		return false
	}
	if bad.Line > 0 {
		d.out.found(-1, "line %d: %s", bad.Line, bad.Why)
	} else {
		d.out.found(-1, "%s", bad.Why)
	}
	d.raw(text)
	return true
}

// raw shows the lines of a text as they are.
func (d *dumper) raw(text []byte) {
	n := 0
	for line := range strings.Lines(string(text)) {
		if n++; n > rawLinesMax {
			d.out.note(-1, "more than %d lines", rawLinesMax)
			break
		}
		d.out.begin("line", "")
		d.out.num("line", int64(n))
		d.out.bytes("text", []byte(strings.TrimRight(line, "\r\n")))
		d.out.end()
	}
}
