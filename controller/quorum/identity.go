package quorum

import (
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
)

// identityFile holds what a node has told others of itself before there was a
// cluster. It is written once and durably, before the first word to anybody: a
// node that chose anew after a crash would be another one to some.
const identityFile = "quorum-identity"

// identity is the content of identityFile. Directory is what this node is known
// by in the quorum, whatever the log directory's own id is. The rest is this
// node's share in a bootstrap.
type identity struct {
	Directory metadata.DirectoryID
	// ClusterID is the one configured, or one chosen: the lowest node's counts
	// where nobody has one configured.
	ClusterID  string
	Configured bool
	Time       model.Timestamp
	Listeners  []metadata.Listener
	Features   []metadata.Feature
}

// encode writes the fields; the same bytes go to the disk and into answers.
func (id *identity) encode(e *encoder) {
	e.id(id.Directory)
	e.str(id.ClusterID)
	e.flag(id.Configured)
	e.u64(uint64(id.Time))
	recs := []metadata.Record{&metadata.Voters{Voters: []metadata.Voter{{Directory: id.Directory, Listeners: id.Listeners}}}}
	for _, f := range id.Features {
		recs = append(recs, &metadata.FeatureLevel{Feature: f})
	}
	e.bytes(metadata.AppendEntry(nil, metadata.Entry{Records: recs}))
}

func (id *identity) decode(d *decoder) {
	id.Directory, id.ClusterID, id.Configured = d.id(), d.str(), d.flag()
	id.Time = model.Timestamp(d.u64())
	entry, err := metadata.DecodeEntry(d.bytes())
	if d.err == nil {
		d.err = err
	}
	for _, r := range entry.Records {
		switch r := r.(type) {
		case *metadata.Voters:
			for _, v := range r.Voters {
				id.Listeners = append(id.Listeners, v.Listeners...)
			}
		case *metadata.FeatureLevel:
			id.Features = append(id.Features, r.Feature)
		}
	}
}

// errNoIdentity: the file is not there, or was cut short.
var errNoIdentity = errors.New("no " + identityFile)

// readIdentity reads the file of dir. What can't be read whole was never told to
// anybody, or the disk is damaged: both are errNoIdentity, and the node is
// another one from then on.
func readIdentity(fs vfs.FS, dir string) (*identity, error) {
	b, err := vfs.ReadFile(fs, filepath.Join(dir, identityFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNoIdentity
	}
	if err != nil {
		return nil, err
	}
	if len(b) < 4 {
		return nil, errNoIdentity
	}
	body, id := b[:len(b)-4], new(identity)
	sum := &decoder{b: b[len(body):]}
	d := newDecoder(body)
	id.decode(d)
	if sum.u32() != crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) || d.end() != nil {
		return nil, errNoIdentity
	}
	return id, nil
}

// writeIdentity makes id durable in dir, which it makes.
func writeIdentity(fs vfs.FS, dir string, id *identity) error {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := fs.SyncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	e := newEncoder()
	id.encode(e)
	e.u32(crc32.Checksum(e.b, crc32.MakeTable(crc32.Castagnoli)))
	if err := vfs.WriteFileAtomic(fs, filepath.Join(dir, identityFile), e.b); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

// identify returns the identity of a node whose directory is empty, chosen and
// made durable if it has none yet. fresh makes it another one than the log
// directory's: a node that forgot what it promised is not who it was.
func identify(o Config, dir string, now model.Now, fresh bool) (*identity, error) {
	id, err := readIdentity(o.FS, dir)
	if !errors.Is(err, errNoIdentity) {
		return id, err
	}
	id = &identity{Directory: o.DirectoryID, ClusterID: o.ClusterID, Configured: o.ClusterID != "", Time: now.Wall, Listeners: o.Listeners, Features: o.Features}
	if len(id.Listeners) == 0 {
		if v := voterOf(o.Voters, o.NodeID); v != nil {
			id.Listeners = v.Listeners
		}
	}
	if fresh || id.Directory == (metadata.DirectoryID{}) {
		id.Directory = newUUID(o.Rand)
	}
	if id.ClusterID == "" {
		u := newUUID(o.Rand)
		id.ClusterID = base64.RawURLEncoding.EncodeToString(u[:])
	}
	return id, writeIdentity(o.FS, dir, id)
}

// voterOf returns the voter with a node id, or nil.
func voterOf(voters []metadata.Voter, node model.BrokerID) *metadata.Voter {
	if i := slices.IndexFunc(voters, func(v metadata.Voter) bool { return v.Node == node }); i >= 0 {
		return &voters[i]
	}
	return nil
}

// member returns the voter with a raft id, or nil.
func member(voters []metadata.Voter, id uint64) *metadata.Voter {
	if i := slices.IndexFunc(voters, func(v metadata.Voter) bool { return metadata.RaftID(v.Node, v.Directory) == id }); i >= 0 {
		return &voters[i]
	}
	return nil
}
