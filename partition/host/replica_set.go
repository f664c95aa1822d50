package host

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// replicaSet is the content of a file that lists partitions, one
// "topic-id partition" a line (docs/formats/checkpoints.md, line files).
type replicaSet map[model.TopicIDPartition]bool

// parseReplicas returns false if the text is not a whole list.
func parseReplicas(text []byte) (replicaSet, bool) {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" || lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, false
	}
	set := make(replicaSet)
	for _, line := range lines[2:] {
		id, number, ok := strings.Cut(line, " ")
		topic, err := model.ParseTopicID(id)
		n, err2 := strconv.ParseInt(number, 10, 32)
		if !ok || err != nil || err2 != nil {
			return nil, false
		}
		set[model.TopicIDPartition{TopicID: topic, Partition: int32(n)}] = true
	}
	return set, true
}

// write replaces the file.
func (s replicaSet) write(fs vfs.FS, path string) error {
	ids := make([]model.TopicIDPartition, 0, len(s))
	for id := range s { // order-free: sorted below
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b model.TopicIDPartition) int {
		if c := bytes.Compare(a.TopicID[:], b.TopicID[:]); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	var text bytes.Buffer
	fmt.Fprintf(&text, "0\n%d\n", len(ids))
	for _, id := range ids {
		fmt.Fprintf(&text, "%s %d\n", id.TopicID, id.Partition)
	}
	return vfs.WriteFileAtomic(fs, path, text.Bytes())
}
