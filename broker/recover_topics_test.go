package broker

import (
	"slices"
	"testing"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log/checkpoint"
)

// A topic is told by the directories that name it, with those of its partitions
// that were never written to and name nothing; records of nobody knows whom are no
// topic's.
func TestRecoveredTopicsHaveTheirEmptyPartitions(t *testing.T) {
	b := startBroker(t, t.TempDir())
	defer stopBroker(t, b)
	dir := b.dirs.All()[0].Path()
	id := model.TopicID{7}
	for name, file := range map[string]string{"r-1": checkpoint.PartitionMetadataFile, "r-0": "00000000000000000000.log", "r-3": "00000000000000000000.log", "other-0": ""} {
		if err := b.fs.MkdirAll(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
		var data []byte
		switch name {
		case "r-1":
			data = checkpoint.EncodePartitionMetadata(checkpoint.PartitionMetadata{TopicID: id})
		case "r-3":
			data = []byte("records")
		}
		if file != "" {
			if err := vfs.WriteFile(b.fs, dir+"/"+name+"/"+file, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := b.recoverTopics()
	if len(got) != 1 || got[0].Name != "r" || got[0].ID != id || !slices.Equal(got[0].Partitions, []int32{0, 1}) || len(got[0].LeaderEpochs) != 2 {
		t.Errorf("recovered %+v, want r with partitions 0 and 1", got)
	}
}
