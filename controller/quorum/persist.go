package quorum

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

func (s *storage) path(name string) string { return filepath.Join(s.dir, name) }

// save makes what a Ready wants durable: snapshot, log reset, entries, fsync,
// and only then term, vote and commit. A commit index that reached the disk
// before its entries would, after a crash, claim what is not there.
func (s *storage) save(now model.Now, rd raft.Ready) error {
	if mutant.On("ctl-hardstate-first") {
		if err := s.saveHardState(rd.HardState); err != nil {
			return err
		}
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := s.installSnapshot(rd.Snapshot); err != nil {
			return err
		}
	}
	if err := s.append(now, rd.Entries); err != nil {
		return err
	}
	return s.saveHardState(rd.HardState)
}

// saveHardState rewrites the file when term or vote changed. A commit index
// alone is not worth a write: it is found again by the next election.
func (s *storage) saveHardState(h *raftpb.HardState) error {
	if raft.IsEmptyHardState(h) {
		return nil
	}
	next := hardState{Term: h.GetTerm(), Vote: h.GetVote(), Commit: h.GetCommit()}
	changed := next.Term != s.hard.Term || next.Vote != s.hard.Vote
	if mutant.On("ctl-hardstate-first") && next.Commit != s.hard.Commit {
		// Else its order does not show: the first message of a new leader, which brings
		// the term, counts nothing that it brings.
		changed = true
	}
	if changed && !mutant.On("ctl-vote-lost") {
		if err := s.writeHardState(next); err != nil {
			return err
		}
	}
	s.hard = next
	return nil
}

// writeHardState stores h, whose commit index is the recovery point of the next
// start. So no entry counts whose term the epoch file may lack: after a start on a
// full disk that can be one that others have committed.
func (s *storage) writeHardState(h hardState) error {
	if !mutant.On("ctl-hardstate-first") {
		h.Commit = min(h.Commit, s.durable())
	}
	return writeHardState(s.fs, s.dir, h)
}

// durable is the index up to which snapshot, entries and epoch file are durable.
func (s *storage) durable() uint64 {
	return max(s.snapshotIndex(), uint64(s.plog.RecoveryPoint()))
}

// close ends the use of the log. In good order the commit index is stored as it
// is, so that the next start can tell damage below it from a torn end.
func (s *storage) close(clean bool) error {
	if !clean {
		return s.plog.Close(false)
	}
	if err := s.plog.Close(true); err != nil {
		return err
	}
	return s.writeHardState(s.hard)
}

// append writes entries behind the log's end, or over a suffix of it that
// another leader's entries replace, and makes them durable.
func (s *storage) append(now model.Now, entries []*raftpb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].GetIndex()
	if first <= s.lastIndex() {
		if err := s.truncate(first); err != nil {
			return err
		}
	}
	if first != s.lastIndex()+1 {
		return fmt.Errorf("entry %d does not follow entry %d", first, s.lastIndex())
	}
	s.buf = s.buf[:0]
	for _, e := range entries {
		s.buf = metadata.AppendBatch(s.buf, s.batchOf(e))
	}
	if _, err := s.plog.Append(now, s.buf); err != nil {
		return err
	}
	for _, e := range entries {
		s.noteTerm(e.GetIndex(), e.GetTerm())
	}
	s.recent = append(s.recent, entries...)
	return s.flush()
}

// flush makes the whole log durable, its epoch file included: the next start holds
// what was committed against that. A failure poisons the log for good, unless it is
// only that there was no room for the epoch file.
func (s *storage) flush() error {
	job := s.plog.StartFlush()
	if job == nil {
		return nil
	}
	if err := s.plog.FinishFlush(job, s.timed(job.Run)); err != nil {
		return fmt.Errorf("%w: %w", errUnflushed, err)
	}
	return job.NoRoom()
}

// truncate removes the entries from index on.
func (s *storage) truncate(index uint64) error {
	if index <= s.snapshotIndex() {
		return fmt.Errorf("entries from %d on are to be replaced, which the snapshot at %s covers", index, s.snapshot.At)
	}
	if _, err := s.plog.Truncate(offsetOf(index)); err != nil {
		return err
	}
	for len(s.terms) > 0 && s.terms[len(s.terms)-1].index >= index {
		s.terms = s.terms[:len(s.terms)-1]
	}
	for len(s.recent) > 0 && s.recent[len(s.recent)-1].GetIndex() >= index {
		s.recent = s.recent[:len(s.recent)-1]
	}
	_, err := s.plog.Reclaim()
	return err
}

// noteTerm remembers that the entry at index has this term.
func (s *storage) noteTerm(index, term uint64) {
	if n := len(s.terms); n == 0 || s.terms[n-1].term != term {
		s.terms = append(s.terms, termRun{index, term})
	}
}

// installSnapshot takes over a snapshot that a leader sent: the file first, then
// the log, which starts anew behind it. A crash in between is finished at load.
func (s *storage) installSnapshot(snap *raftpb.Snapshot) error {
	h, m, err := metadata.ReadSnapshot(snap.GetData())
	if err != nil {
		return err
	}
	if indexOf(h.At.Offset) != snap.GetMetadata().GetIndex() {
		return fmt.Errorf("snapshot for index %d is at %s", snap.GetMetadata().GetIndex(), h.At)
	}
	if _, err := writeSnapshot(s.fs, s.dir, h, m); err != nil {
		return err
	}
	return s.resetTo(h)
}

// resetTo makes the log begin right behind a snapshot that is on disk.
func (s *storage) resetTo(h metadata.SnapshotHeader) error {
	if _, err := s.plog.TruncateFullyAndStartAt(h.At.Offset.Next()); err != nil {
		return err
	}
	s.snapshot, s.previous, s.terms, s.recent = h, h.At, nil, nil
	if _, err := s.plog.Reclaim(); err != nil {
		return err
	}
	return s.dropSnapshots()
}

// errUnwritten: nothing was changed for a snapshot, since its file could not be
// written.
var errUnwritten = errors.New("snapshot not written")

// takeSnapshot writes m, the image at the last applied entry, and drops what the
// snapshot before the previous one needed. conf is the voter configuration at
// that entry.
func (s *storage) takeSnapshot(now model.Now, conf []byte, m *metadata.Image) (size int, err error) {
	h := metadata.SnapshotHeader{At: m.At(), Time: now.Wall, ConfState: conf, BootstrapHash: s.snapshot.BootstrapHash}
	if size, err = writeSnapshot(s.fs, s.dir, h, m); err != nil {
		return 0, fmt.Errorf("%w: %w", errUnwritten, err)
	}
	s.previous, s.snapshot = s.snapshot.At, h
	if err := s.plog.Roll(now); err != nil {
		return 0, err
	}
	if err := s.dropSnapshots(); err != nil {
		return 0, err
	}
	if err := s.plog.IncrementLogStart(s.previous.Offset.Next()); err != nil {
		return 0, err
	}
	s.forgetTerms()
	if _, _, err := s.plog.DropBelow(); err != nil {
		return 0, err
	}
	_, err = s.plog.Reclaim()
	return size, err
}

// forgetTerms drops the runs that end at or below the log's start.
func (s *storage) forgetTerms() {
	start := indexOf(s.plog.LogStart())
	for len(s.terms) > 1 && s.terms[1].index <= start {
		s.terms = s.terms[1:]
	}
}

// dropSnapshots removes the files older than the previous snapshot. The oldest
// file that is left says where the log starts, so it goes before the log's own
// prefix does.
func (s *storage) dropSnapshots() error {
	all, err := listSnapshots(s.fs, s.dir)
	if err != nil {
		return err
	}
	for _, at := range all {
		if at.Offset < s.previous.Offset {
			if err := s.fs.Remove(s.path(metadata.SnapshotName(at))); err != nil {
				return err
			}
		}
	}
	return s.fs.SyncDir(s.dir)
}
