package host

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
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
	// writing is held while the file is written; mu is not.
	writing sync.Mutex
	mu      sync.Mutex
	// known is false until the first Load of a directory has ended, and so for
	// one that was wiped or that Apache Kafka made: then nothing is new.
	known bool
	has   replicaSet
}

func (v *inventory) read(d *Dir) error {
	v.has = make(replicaSet)
	text, err := vfs.ReadFile(d.fs, d.file(inventoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if set, ok := parseReplicas(text); ok {
		v.known, v.has = true, set
	}
	return nil
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

// enter lists partitions whose directories' names are durable, durably. After an
// error, surely says that the file lists none of them: it is replaced by a rename,
// which may be done though the sync behind it has failed. If it may list them, their
// directories must stay, else they would be missed at the next start.
func (v *inventory) enter(d *Dir, ids []model.TopicIDPartition) (surely bool, err error) {
	if err = v.change(d, ids, nil); err == nil {
		return false, nil
	}
	text, rerr := vfs.ReadFile(d.fs, d.file(inventoryFile))
	if errors.Is(rerr, fs.ErrNotExist) {
		return true, err
	}
	set, ok := parseReplicas(text)
	if rerr != nil || !ok {
		return false, err
	}
	return !slices.ContainsFunc(ids, func(id model.TopicIDPartition) bool { return set[id] }), err
}

// change adds and drops entries and makes that durable.
func (v *inventory) change(d *Dir, add, drop []model.TopicIDPartition) error {
	v.writing.Lock()
	defer v.writing.Unlock()
	next, added, changed := v.take(add, drop)
	if !changed {
		return nil
	}
	err := next.write(d.fs, d.file(inventoryFile))
	if err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, id := range added { // nobody was told that it was created
			delete(v.has, id)
		}
	}
	return err
}

// take makes the change in memory, and returns what the file is to hold and which
// entries are new.
func (v *inventory) take(add, drop []model.TopicIDPartition) (next replicaSet, added []model.TopicIDPartition, changed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed = !v.known
	v.known = true
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
		return nil, nil, false
	}
	return maps.Clone(v.has), added, true
}
