package quorum

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// bootstrapAt is where the bootstrap snapshot stands: index 1, term 1.
var bootstrapAt = model.OffsetAndEpoch{Offset: 0, Epoch: 1}

// bootstrap makes a virgin directory the first state of a new cluster: the
// snapshot with the full voter set, and last, as the sign that it is complete,
// the hard state.
func bootstrap(o Config, dir string, now model.Now) error {
	id := o.DirectoryID
	if id == (metadata.DirectoryID{}) {
		id = metadata.DirectoryID(newUUID(o.Rand))
	}
	cluster := o.ClusterID
	if cluster == "" {
		u := newUUID(o.Rand)
		cluster = base64.RawURLEncoding.EncodeToString(u[:])
	}
	recs := []metadata.Record{
		&metadata.Cluster{ID: cluster},
		&metadata.Voters{Voters: []metadata.Voter{{Node: o.NodeID, Directory: id, Listeners: o.Listeners}}},
	}
	for _, f := range o.Features {
		recs = append(recs, &metadata.FeatureLevel{Feature: f})
	}
	m, _, err := metadata.Apply(metadata.Empty(), bootstrapAt, recs)
	if err != nil {
		return err
	}
	return writeFirst(o, dir, now, m)
}

// writeFirst makes dir hold m as its first state.
func writeFirst(o Config, dir string, now model.Now, m *metadata.Image) error {
	if err := o.FS.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := o.FS.SyncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	conf, err := proto.Marshal(&raftpb.ConfState{Voters: raftIDs(m.Voters())})
	if err != nil {
		return err
	}
	h := metadata.SnapshotHeader{At: m.At(), Time: now.Wall, ConfState: conf, BootstrapHash: m.VoterSetHash()}
	return writeState(o, dir, h, m)
}

// writeState makes a snapshot the first state of dir. The hard state is the sign
// that it is complete. Nothing was promised under this name before, so there is
// no vote.
func writeState(o Config, dir string, h metadata.SnapshotHeader, m *metadata.Image) error {
	if _, err := writeSnapshot(o.FS, dir, h, m); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return writeHardState(o.FS, dir, hardState{Term: uint64(h.At.Epoch), Commit: indexOf(h.At.Offset)})
}

func raftIDs(voters []metadata.Voter) (ids []uint64) {
	for _, v := range voters {
		ids = append(ids, metadata.RaftID(v.Node, v.Directory))
	}
	return ids
}

// newUUID draws a random UUID that is not reserved and does not print with a
// leading dash.
func newUUID(rng *rand.Rand) [16]byte {
	for {
		var id [16]byte
		for i := range id {
			id[i] = byte(rng.Uint32())
		}
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if metadata.DirectoryID(id).String()[0] != '-' {
			return id
		}
	}
}

// checkIdentity compares what the disk says with what the node was told, and
// returns the directory id by which the quorum knows it.
func (n *Node) checkIdentity(m *metadata.Image) (metadata.DirectoryID, error) {
	o, own := n.config, n.config.DirectoryID
	if o.ClusterID != "" && o.ClusterID != m.ClusterID() {
		return own, fmt.Errorf("cluster id %q, metadata of %q: %w", o.ClusterID, m.ClusterID(), ErrOtherCluster)
	}
	id, err := readIdentity(o.FS, n.dir)
	switch {
	case err == nil:
		own = id.Directory
	case !errors.Is(err, errNoIdentity):
		return own, err
	}
	v := voterOf(m.Voters(), o.NodeID)
	if v != nil && (own == v.Directory || own == metadata.DirectoryID{}) {
		return v.Directory, nil
	}
	var conf *raftpb.ConfState
	if n.store != nil { // else the disk could not be taken up
		if conf, err = n.store.confState(); err != nil {
			return own, err
		}
	}
	if own != (metadata.DirectoryID{}) && slices.Contains(conf.GetLearners(), metadata.RaftID(o.NodeID, own)) {
		return own, nil
	}
	if v != nil {
		return own, fmt.Errorf("node %d has directory %s, the voter set says %s: %w", o.NodeID, own, v.Directory, ErrStranger)
	}
	return own, fmt.Errorf("node %d is not among %d voters: %w", o.NodeID, len(m.Voters()), ErrStranger)
}
