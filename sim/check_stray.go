package sim

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/controller/metadata"
)

const partitionMetadata = "partition.metadata"

// noteDirectories remembers which replicas have a directory when a process starts.
func (n *node) noteDirectories() {
	for _, r := range n.m.replicas {
		b, err := n.m.disk.Content(filepath.Join(partDir(r.tp), partitionMetadata))
		if err == nil && strings.Contains(string(b), "topic_id: "+r.part.id.TopicID.String()) {
			n.unclaimed = append(n.unclaimed, r)
		}
	}
}

// claims takes those off the list that the metadata give to this broker: what
// becomes of them later, it has heard why.
func (n *node) claims(img *metadata.Image) {
	n.unclaimed = slices.DeleteFunc(n.unclaimed, func(r *replica) bool {
		reg := img.PartitionByID(r.part.id)
		return reg != nil && reg.HasReplica(n.m.id)
	})
}

// checkStrays checks that the logs of which the metadata says nothing, in which their
// removal was not seen, are set aside and not deleted.
func (n *node) checkStrays() {
	names, err := n.m.disk.List(dataDir)
	if err != nil || n.m.faults.hits > 0 {
		return
	}
	for _, r := range n.unclaimed {
		if !slices.Contains(names, filepath.Base(partDir(r.tp))) && !r.isStray(names) {
			n.world.fail(4, "%v: broker %d has deleted a log that nobody has removed, as far as it knows", r.tp, n.m.id)
		}
	}
	n.unclaimed = nil
}

// isStray reports whether one of the names in a log directory is that of a replica
// that was set aside.
func (r *replica) isStray(names []string) bool {
	dir := filepath.Base(partDir(r.tp))
	return slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, dir+".") && strings.HasSuffix(name, "-stray")
	})
}

// isAside reports whether a replica was set aside on its disk.
func (r *replica) isAside() bool {
	names, err := r.m.disk.List(dataDir)
	return err == nil && r.isStray(names)
}
