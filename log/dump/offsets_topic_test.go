package dump_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/internal/vfs/memfs"
	"github.com/tidemark/tidemark/log/dump"
	"github.com/tidemark/tidemark/protocol/record"
)

// TestOffsetsTopic: records of groups are shown decoded, tombstones too, and what
// isn't understood as it is.
func TestOffsetsTopic(t *testing.T) {
	key := kmsg.OffsetCommitKey{Version: 1, Group: "readers", Topic: "events", Partition: 3}
	value := kmsg.OffsetCommitValue{Version: 3, Offset: 1234, LeaderEpoch: 5, Metadata: "m", CommitTimestamp: 99}
	group := kmsg.GroupMetadataKey{Version: 2, Group: "readers"}
	b := record.NewBuilder(record.Options{})
	b.Append(0, key.AppendTo(nil), value.AppendTo(nil))
	b.Append(0, group.AppendTo(nil), nil)
	b.Append(0, []byte("\x00\x05\x00\x01g\x00\x02me"), []byte("\x00\x00x"))
	b.Append(0, []byte("\x00\x09what"), []byte("ever"))
	b.Append(0, []byte("\x00\x01\x00\xffcut"), []byte("short"))
	fs := memfs.New()
	const dir = "__consumer_offsets-7"
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(fs, dir+"/00000000000000000000.log", b.Build()); err != nil {
		t.Fatal(err)
	}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		if found, err := dump.Run(fs, []string{dir}, dump.Options{Data: true, JSON: asJSON}, &out); err != nil || found {
			t.Fatalf("found %v, %v", found, err)
		}
		text := strings.NewReplacer(`": `, `":`, `: `, `:`, `"`, ``).Replace(out.String())
		for _, want := range []string{
			"groupRecord:OffsetCommit", "Group:readers", "Topic:events", "Partition:3", "Offset:1234", "groupRecord:GroupMetadata",
			"groupRecord:ConsumerGroupMemberMetadata", "groupKey:[g,me]", "ever", "short",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("JSON %v: no %q in\n%s", asJSON, want, text)
			}
		}
	}
}
