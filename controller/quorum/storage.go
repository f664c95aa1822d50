package quorum

import (
	"errors"
	"fmt"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/metrics"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/vfs"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/protocol/record"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// storage is the library's view of the disk (raft.Storage) and the one place
// that writes it (save). One raft entry is one record batch of one record:
// offset = index − 1, leader epoch = term. Owned by the node's loop.
type storage struct {
	fs   vfs.FS
	dir  string
	plog *log.Log
	// snapshot is the newest one, with the voter configuration of its index.
	snapshot metadata.SnapshotHeader
	// previous is the one before it, kept together with the log from its index
	// on: a damaged newest snapshot is not the end.
	previous model.OffsetAndEpoch
	hard     hardState
	// terms are the runs of equal term in the log, from the batch headers.
	terms []termRun
	// recent are the last entries of the log, from the first that was not yet
	// applied on: the library asks for each once more when it is committed, and
	// does not survive a disk that can't read it then.
	recent []*raftpb.Entry
	// lastTime is the time of the last entry, for those that carry none.
	lastTime model.Timestamp
	// behindSnapshot is the size of the entries behind the snapshot at load.
	behindSnapshot int64
	// broken is why entries or the snapshot could not be read. The library would
	// not survive the error; it is told that they are compacted, and the node
	// looks here afterwards.
	broken error
	buf    []byte

	rt      loop.Runtime
	flushes *metrics.Histogram // nil: not counted
}

// termRun begins at index and lasts to the next run.
type termRun struct{ index, term uint64 }

var _ raft.Storage = (*storage)(nil)

func (s *storage) snapshotIndex() uint64 { return indexOf(s.snapshot.At.Offset) }

// InitialState implements raft.Storage. The configuration is that of the
// snapshot, never a later one: the library applies the changes behind it anew.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	conf, err := s.confState()
	return s.hard.raft(), conf, err
}

func (s *storage) confState() (*raftpb.ConfState, error) {
	conf := new(raftpb.ConfState)
	if err := proto.Unmarshal(s.snapshot.ConfState, conf); err != nil {
		return nil, fmt.Errorf("voter configuration of the snapshot at %s: %w", s.snapshot.At, err)
	}
	return conf, nil
}

// FirstIndex implements raft.Storage. The term of the entry before it must be
// known: from the snapshot if the log begins right behind it, else from the
// log's own first batch, which is then not available as an entry.
func (s *storage) FirstIndex() (uint64, error) {
	start := uint64(s.plog.LogStart())
	if start == s.snapshotIndex() {
		return start + 1, nil
	}
	return start + 2, nil
}

// LastIndex implements raft.Storage.
func (s *storage) LastIndex() (uint64, error) { return s.lastIndex(), nil }

func (s *storage) lastIndex() uint64 { return uint64(s.plog.LogEnd()) }

// Term implements raft.Storage.
func (s *storage) Term(i uint64) (uint64, error) {
	if i == s.snapshotIndex() {
		return uint64(s.snapshot.At.Epoch), nil
	}
	if i > s.lastIndex() {
		return 0, raft.ErrUnavailable
	}
	for k := len(s.terms) - 1; k >= 0; k-- {
		if s.terms[k].index <= i {
			return s.terms[k].term, nil
		}
	}
	return 0, raft.ErrCompacted
}

// errEnough ends a walk over batches.
var errEnough = errors.New("enough")

// Entries implements raft.Storage.
func (s *storage) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	if first, _ := s.FirstIndex(); lo < first {
		return nil, raft.ErrCompacted
	}
	if hi > s.lastIndex()+1 {
		return nil, raft.ErrUnavailable
	}
	if len(s.recent) > 0 && lo >= s.recent[0].GetIndex() {
		from := lo - s.recent[0].GetIndex()
		return limited(s.recent[from:hi-s.recent[0].GetIndex()], maxSize), nil
	}
	var entries []*raftpb.Entry
	size := uint64(0)
	err := s.plog.View().Batches(offsetOf(lo), nil, func(raw record.Batch) error {
		if indexOf(raw.BaseOffset()) >= hi {
			return errEnough
		}
		e, err := entryOf(raw)
		if err != nil {
			return err
		}
		if size += uint64(proto.Size(e)); size > maxSize && len(entries) > 0 {
			return errEnough
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		s.broken = err
		return nil, raft.ErrCompacted
	}
	return entries, nil
}

// limited copies entries up to maxSize bytes, but at least one.
func limited(entries []*raftpb.Entry, maxSize uint64) (out []*raftpb.Entry) {
	size := uint64(0)
	for _, e := range entries {
		if size += uint64(proto.Size(e)); size > maxSize && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out
}

// forget drops the entries up to index from memory; they were applied.
func (s *storage) forget(index uint64) {
	if len(s.recent) == 0 || index < s.recent[0].GetIndex() {
		return
	}
	n := min(index+1-s.recent[0].GetIndex(), uint64(len(s.recent)))
	clear(s.recent[:n])
	if s.recent = s.recent[n:]; len(s.recent) == 0 {
		s.recent = nil
	}
}

// Snapshot implements raft.Storage. It has no bytes: the member that needs it is
// told which one, and fetches it.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	conf, err := s.confState()
	if err != nil {
		s.broken = err
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	term := uint64(s.snapshot.At.Epoch)
	return &raftpb.Snapshot{
		Metadata: &raftpb.SnapshotMetadata{ConfState: conf, Index: new(s.snapshotIndex()), Term: new(term)},
	}, nil
}

// entryOf turns a batch into the entry it holds.
func entryOf(raw record.Batch) (*raftpb.Entry, error) {
	b, err := metadata.ParseBatch(raw)
	if err != nil {
		return nil, err
	}
	e := &raftpb.Entry{Index: new(indexOf(b.Offset)), Term: new(uint64(b.Epoch)), Type: raftpb.EntryNormal.Enum()}
	switch b.Control {
	case 0:
		e.Data = b.Value
	case metadata.ControlNewTerm:
	case metadata.ControlConfChange:
		e.Type, e.Data = raftpb.EntryConfChange.Enum(), b.Value
	case metadata.ControlConfChangeV2:
		e.Type, e.Data = raftpb.EntryConfChangeV2.Enum(), b.Value
	default:
		return nil, fmt.Errorf("entry at offset %d: control type %d: %w", b.Offset, b.Control, metadata.ErrUnknownVersion)
	}
	return e, nil
}

// batchOf is the inverse of entryOf.
func (s *storage) batchOf(e *raftpb.Entry) metadata.Batch {
	b := metadata.Batch{Offset: offsetOf(e.GetIndex()), Epoch: model.LeaderEpoch(e.GetTerm()), Value: e.GetData()}
	switch {
	case e.GetType() == raftpb.EntryConfChange:
		b.Control = metadata.ControlConfChange
	case e.GetType() == raftpb.EntryConfChangeV2:
		b.Control = metadata.ControlConfChangeV2
	case len(e.GetData()) == 0:
		b.Control = metadata.ControlNewTerm
	default:
		s.lastTime = max(s.lastTime, metadata.EntryTime(e.GetData()))
	}
	// An entry without a time of its own has that of what precedes it: zero would
	// age the first segment by decades, and roll it at the next entry.
	b.Time = max(s.lastTime, s.snapshot.Time)
	return b
}
