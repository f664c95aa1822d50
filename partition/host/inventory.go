package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// inventoryFile lists, in each log directory, the partitions that were created
// in it. A replica that the cluster counts on, is in the list, and is not on the
// disk has been lost: it must not be made anew as if it had never held anything.
// One that is in no list is new. See docs/formats/log-directory.md.
const inventoryFile = ".tidemark_partitions"

// inventory is the list of one directory.
type inventory struct {
	mu sync.Mutex
	// known is false until the first Load of a directory has ended, and so for
	// one that was wiped or that Apache Kafka made: then nothing is new.
	known bool
	has   map[model.TopicIDPartition]bool
}

func (v *inventory) read(d *Dir) error {
	v.has = make(map[model.TopicIDPartition]bool)
	text, err := vfs.ReadFile(d.fs, d.file(inventoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	v.known = v.parse(text)
	return nil
}

// parse returns false if the text is not a whole list.
func (v *inventory) parse(text []byte) bool {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" || lines[1] != strconv.Itoa(len(lines)-2) {
		return false
	}
	for _, line := range lines[2:] {
		id, number, ok := strings.Cut(line, " ")
		topic, err := model.ParseTopicID(id)
		n, err2 := strconv.ParseInt(number, 10, 32)
		if !ok || err != nil || err2 != nil {
			clear(v.has)
			return false
		}
		v.has[model.TopicIDPartition{TopicID: topic, Partition: int32(n)}] = true
	}
	return true
}

// lists says whether the partition was created here.
func (v *inventory) lists(id model.TopicIDPartition) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.has[id]
}

// isKnown says whether the directory has a list.
func (v *inventory) isKnown() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known
}

// change adds and drops entries and makes that durable.
func (v *inventory) change(d *Dir, add, drop []model.TopicIDPartition) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := !v.known
	v.known = true
	var added []model.TopicIDPartition
	for _, id := range add {
		if !v.has[id] {
			changed, v.has[id] = true, true
			added = append(added, id)
		}
	}
	for _, id := range drop {
		changed = changed || v.has[id]
		delete(v.has, id)
	}
	if !changed {
		return nil
	}
	err := v.write(d)
	if err != nil {
		for _, id := range added { // nobody was told that it was created
			delete(v.has, id)
		}
	}
	return err
}

// write replaces the file. Called with mu held.
func (v *inventory) write(d *Dir) error {
	ids := make([]model.TopicIDPartition, 0, len(v.has))
	for id := range v.has { // order-free: sorted below
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
	return vfs.WriteFileAtomic(d.fs, d.file(inventoryFile), text.Bytes())
}
