package rescue_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/checkpoint"
	"github.com/tidemark/tidemark/log/logtest"
	"github.com/tidemark/tidemark/log/rescue"
	"github.com/tidemark/tidemark/protocol/record"
)

// world is a disk with the directories of dead brokers.
type world struct {
	*testing.T
	fs *memfs.FS
}

func newWorld(t *testing.T) *world { return &world{t, memfs.New()} }

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(path string, b []byte) {
	w.Helper()
	w.ok(w.fs.MkdirAll(path[:strings.LastIndexByte(path, '/')], 0o755))
	w.ok(vfs.WriteFile(w.fs, path, b))
}

// replica makes a partition's directory.
func (w *world) replica(dir string, id byte, segment []byte) {
	w.Helper()
	w.write(dir+"/00000000000000000000.log", segment)
	if id > 0 {
		w.ok(checkpoint.WritePartitionMetadata(w.fs, dir+"/partition.metadata", checkpoint.PartitionMetadata{TopicID: model.TopicID{id}}))
	}
}

// metadata writes Kafka's metadata log: each value is one record.
func (w *world) metadata(dir, file string, base model.Offset, values ...[]byte) {
	w.Helper()
	var set []byte
	for i, v := range values {
		b := record.NewBuilder(record.Options{BaseOffset: base + model.Offset(i), LeaderEpoch: 1})
		b.Append(0, nil, v)
		set = append(set, b.Build()...)
	}
	w.write(dir+"/__cluster_metadata-0/"+file, set)
}

// Metadata records as Kafka frames them.
func head(key byte) []byte { return []byte{1, key, 0} }

func topicRecord(name string, id byte) []byte {
	b := kbin.AppendCompactString(head(2), name)
	return append(kbin.AppendUuid(b, [16]byte{id}), 0)
}

func partitionRecord(n int32, id byte) []byte {
	return append(kbin.AppendUuid(kbin.AppendInt32(head(3), n), [16]byte{id}), "replicas and so on"...)
}

func configRecord(topic, key string, value *string) []byte {
	b := kbin.AppendCompactString(kbin.AppendInt8(head(4), 2), topic)
	return append(kbin.AppendCompactNullableString(kbin.AppendCompactString(b, key), value), 0)
}

func removeRecord(id byte) []byte { return append(kbin.AppendUuid(head(9), [16]byte{id}), 0) }

func (w *world) look(sources ...string) *rescue.Plan {
	w.Helper()
	p, err := rescue.Look(w.fs, sources)
	w.ok(err)
	return p
}

func target() rescue.Target {
	n := byte(0)
	return rescue.Target{LogDir: "new/log", NodeID: 5, NewID: func() [16]byte { n++; return [16]byte{0xdd, n} }}
}

// set is n batches of one record of an epoch.
func set(n int, epoch model.LeaderEpoch) []byte {
	var b []byte
	for i := range n {
		b = append(b, logtest.Batch(logtest.Spec{Base: model.Offset(i), Epoch: epoch})...)
	}
	return b
}

// TestMetadataTellsTopics: numbers of partitions and settings come from Kafka's
// metadata, the snapshot first, then what follows it.
func TestMetadataTellsTopics(t *testing.T) {
	w := newWorld(t)
	a, b := "7", "8"
	w.metadata("k", "00000000000000000000.log", 0, topicRecord("t", 9), removeRecord(9)) // before the snapshot
	w.metadata("k", "00000000000000000004-0000000001.checkpoint", 0,
		topicRecord("t", 1), partitionRecord(0, 1), configRecord("t", "retention.ms", &a), topicRecord("gone", 2))
	w.metadata("k", "00000000000000000004.log", 4,
		partitionRecord(3, 1), configRecord("t", "segment.bytes", &b), configRecord("t", "retention.ms", nil),
		removeRecord(2), []byte{1, 20, 0, 0}, []byte{1}, nil)
	w.replica("k/t-0", 1, set(3, 0))
	w.replica("k/t-2", 1, set(1, 0))
	w.replica("k/gone-0", 2, set(1, 0))
	w.replica("k/t-1.aa-delete", 1, nil)
	p := w.look("k")
	if len(p.Topics) != 1 || p.Topics[0].Partitions != 4 || !p.Topics[0].Told || len(p.Topics[0].Replicas) != 2 ||
		len(p.Topics[0].Configs) != 1 || p.Topics[0].Configs["segment.bytes"] != "8" {
		t.Errorf("%+v", p.Topics)
	}
	if len(p.Left) != 2 {
		t.Errorf("left: %v", p.Left)
	}
}

// TestNothingIsDeletedForItsAge: without metadata no setting may cost a record,
// and a group's partition must stay where its name points to.
func TestNothingIsDeletedForItsAge(t *testing.T) {
	w := newWorld(t)
	w.replica("k/t-1", 0, set(3, 0))
	w.replica("k/__consumer_offsets-7", 3, set(3, 0))
	p := w.look("k")
	offsets, topic := p.Topics[0], p.Topics[1]
	if offsets.Partitions != 50 || offsets.Configs["cleanup.policy"] != "compact" {
		t.Errorf("%+v", offsets)
	}
	if topic.Partitions != 2 || topic.Configs["retention.ms"] != "-1" || topic.Configs["retention.bytes"] != "-1" {
		t.Errorf("%+v", topic)
	}
	m, err := p.Import(w.fs, []string{"k"}, target())
	w.ok(err)
	meta, ok, err := checkpoint.ReadPartitionMetadata(w.fs, "new/log/t-1/partition.metadata")
	if err != nil || !ok || m.Config(meta.TopicID)["retention.ms"] != "-1" {
		t.Errorf("a topic without an id: %v, %v; manifest %+v", meta, err, m)
	}
	for _, dir := range []string{"new/log/t-0", "new/log/__consumer_offsets-0", "new/log/__consumer_offsets-49"} {
		if _, err := w.fs.Stat(dir + "/partition.metadata"); err != nil {
			t.Errorf("a partition without a replica is not made: %v", err)
		}
	}
}

// TestTheReplicaThatKnowsMost: the later epoch, then the longer log.
func TestTheReplicaThatKnowsMost(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []byte
		want string
	}{
		{"longer", set(3, 0), set(4, 0), "b"},
		{"later epoch", set(9, 0), set(2, 1), "b"},
		{"equal", set(3, 1), set(3, 1), "a"},
		{"torn", set(3, 1), set(4, 1)[:len(set(4, 1))-1], "a"},
		{"empty", nil, set(1, 0), "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.replica("a/t-0", 1, c.a)
			w.replica("b/t-0", 1, c.b)
			p := w.look("a", "b")
			if got := p.Topics[0].Replicas[0].Dir; got != c.want+"/t-0" || len(p.Left) != 1 {
				t.Errorf("chosen %s, left %v", got, p.Left)
			}
		})
	}
}

// TestRecreatedTopic: a broker that was down holds the older topic of the name.
func TestRecreatedTopic(t *testing.T) {
	w := newWorld(t)
	w.replica("a/t-0", 1, set(9, 4))
	w.replica("b/t-0", 2, set(2, 0))
	w.metadata("b", "00000000000000000000.log", 0, topicRecord("t", 1), removeRecord(1), topicRecord("t", 2), partitionRecord(0, 2))
	p := w.look("a", "b")
	if len(p.Topics) != 1 || p.Topics[0].ID != (model.TopicID{2}) || p.Topics[0].Replicas[0].Dir != "b/t-0" {
		t.Errorf("%+v, left %v", p.Topics, p.Left)
	}
}

// TestImport: what is copied is the same, checkpoints come along, and an import
// that was interrupted is begun anew.
func TestImport(t *testing.T) {
	w := newWorld(t)
	w.replica("k/t-0", 1, set(5, 0))
	w.write("k/t-0/00000000000000000000.index.deleted", []byte("x"))
	tp := model.TopicPartition{Topic: "t"}
	w.ok(checkpoint.WriteOffsets(w.fs, "k/"+checkpoint.RecoveryPointFile, checkpoint.Offsets{tp: 3}))
	w.ok(checkpoint.WriteMetaProperties(w.fs, "k/meta.properties", checkpoint.MetaProperties{ClusterID: "abc", NodeID: 1}))
	p := w.look("k")
	_, err := p.Import(w.fs, []string{"k"}, target())
	w.ok(err)
	checkCopy := func() {
		t.Helper()
		b, err := vfs.ReadFile(w.fs, "new/log/t-0/00000000000000000000.log")
		if err != nil || !bytes.Equal(b, set(5, 0)) {
			t.Errorf("the copy: %d bytes, %v", len(b), err)
		}
		names, err := w.fs.List("new/log/t-0")
		if want := []string{"00000000000000000000.log", "partition.metadata"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("copied: %v, %v", names, err)
		}
	}
	checkCopy()
	points, err := checkpoint.ReadOffsets(w.fs, "new/log/"+checkpoint.RecoveryPointFile)
	if err != nil || points[tp] != 3 {
		t.Errorf("recovery points: %v, %v", points, err)
	}
	meta, _, err := checkpoint.ReadMetaProperties(w.fs, "new/log/meta.properties")
	if err != nil || meta.ClusterID != "abc" || meta.NodeID != 5 {
		t.Errorf("meta.properties: %+v, %v", meta, err)
	}
	if done, err := rescue.Done(w.fs, "new/log"); err != nil || done == nil || !slices.Equal(done.Sources, []string{"k"}) {
		t.Errorf("done: %+v, %v", done, err)
	}
	if _, err := p.Import(w.fs, []string{"k"}, target()); !errors.Is(err, rescue.ErrNotEmpty) {
		t.Errorf("a second import: %v", err)
	}

	w.ok(w.fs.Remove("new/log/meta.properties"))
	if _, err := p.Import(w.fs, []string{"k"}, target()); !errors.Is(err, rescue.ErrNotEmpty) {
		t.Errorf("an import into a complete one that lost its meta.properties: %v", err)
	}
	checkCopy()

	manifest, err := vfs.ReadFile(w.fs, "new/log/"+rescue.ManifestFile)
	w.ok(err)
	w.write("new/log/"+rescue.ManifestFile, bytes.Replace(manifest, []byte(`"complete": true`), []byte(`"complete": false`), 1))
	w.write("new/log/t-0/00000000000000000000.log", []byte("half"))
	w.write("new/log/other-0/00000000000000000000.log", []byte("half"))
	if done, err := rescue.Done(w.fs, "new/log"); !errors.Is(err, rescue.ErrUnfinished) || done != nil {
		t.Errorf("an interrupted import: %+v, %v", done, err)
	}
	_, err = p.Import(w.fs, []string{"k"}, target())
	w.ok(err)
	checkCopy()
	if _, err := w.fs.Stat("new/log/other-0"); err == nil {
		t.Error("what an interrupted import left is still there")
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.replica("a/t-0", 1, set(5, 0))
	w.ok(checkpoint.WriteMetaProperties(w.fs, "a/meta.properties", checkpoint.MetaProperties{ClusterID: "abc", NodeID: 1}))
	w.replica("b/t-0", 1, set(5, 0))
	w.ok(checkpoint.WriteMetaProperties(w.fs, "b/meta.properties", checkpoint.MetaProperties{ClusterID: "def", NodeID: 1}))
	if _, err := rescue.Look(w.fs, []string{"a", "b"}); err == nil || !strings.Contains(err.Error(), "of cluster def") {
		t.Errorf("two clusters: %v", err)
	}
	l, err := w.fs.Lock("a/.lock")
	w.ok(err)
	if _, err := rescue.Look(w.fs, []string{"a"}); !errors.Is(err, rescue.ErrInUse) {
		t.Errorf("a directory in use: %v", err)
	}
	w.ok(l.Close())
	if _, err := rescue.Look(w.fs, []string{"none"}); err == nil {
		t.Error("a directory that isn't there is taken")
	}
	w.write("new/log/x", nil)
	if _, err := w.look("a").Import(w.fs, []string{"a"}, target()); !errors.Is(err, rescue.ErrNotEmpty) {
		t.Errorf("a target with something in it: %v", err)
	}
	full := newWorld(t)
	full.replica("k/t-0", 1, set(50, 0))
	p := full.look("k")
	full.fs.SetCapacity(6000) // of which what is there has taken more than half
	if _, err := p.Import(full.fs, []string{"k"}, target()); err == nil || !strings.Contains(err.Error(), "bytes are free") {
		t.Errorf("a full disk: %v", err)
	}
}

// FuzzMetadata: whatever a metadata log holds, it is read or passed over.
func FuzzMetadata(f *testing.F) {
	v := "1"
	for _, b := range [][]byte{topicRecord("t", 1), partitionRecord(1, 1), configRecord("t", "k", &v), removeRecord(1)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		w := newWorld(t)
		w.replica("k/t-0", 1, set(1, 0))
		w.metadata("k", "00000000000000000000.log", 0, topicRecord("t", 1), value)
		w.look("k")
	})
}
