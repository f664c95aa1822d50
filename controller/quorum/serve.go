package quorum

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"go.etcd.io/raft/v3"
	"go.uber.org/zap"
)

// observerMax is how long an observer that does not pull is still described, as
// Kafka has it (KIP-595).
const observerMax = model.Instant(5 * time.Minute)

// serving is what a member keeps for those who pull from it.
type serving struct {
	// parked are pulls that wait for news, in the order of their coming; of one
	// asker only the last.
	parked []*parked
	// end and lead are what the last wake saw.
	end  model.Offset
	lead uint64
	// observers are those who pulled from this node while it led, by node id.
	observers []*replicaProgress
}

// parked is a pull that was not answered yet.
type parked struct {
	request *pullRequest
	reply   func([]byte)
	until   model.Instant
	// confirmed: the quorum has confirmed what this node has applied since.
	confirmed bool
}

// pulled takes a pull.
func (n *Node) pulled(now model.Now, p *parked, out *loop.Outbox) {
	q := p.request
	switch {
	case n.phase != phaseMember:
		out.Add(&replied{p.reply, notRunning(KeyPull, n.config.NodeID)})
	case q.ClusterID != "" && q.ClusterID != n.ctl.Image().ClusterID():
		n.replyPull(p, &pullAnswer{Status: pullOtherCluster, Snapshot: noImage()}, out)
	case q.Kind == pullSnapshot:
		n.notePiece(now, q)
		n.replyPull(p, n.piece(q), out)
	default:
		n.noteObserver(now, q)
		p.until = now.Mono + model.Instant(q.Wait)
		if q.Confirm {
			n.read(&read{pull: p, until: now.Mono + model.Instant(PullWaitMax)}, out)
			return
		}
		n.park(p, out)
	}
}

// park answers a pull, or keeps it until there is something to tell.
func (n *Node) park(p *parked, out *loop.Outbox) {
	if a := n.news(p); a != nil {
		n.replyPull(p, a, out)
		return
	}
	s := &n.serving
	for i, old := range s.parked {
		if old.request.Node == p.request.Node && old.request.Directory == p.request.Directory {
			s.parked = slices.Delete(s.parked, i, i+1)
			n.replyPull(old, n.nothing(old), out)
			break
		}
	}
	s.parked = append(s.parked, p)
}

// wake answers the pulls for which there is something to tell, or which have
// waited long enough, or all if the leader is another one: who pulls wants to
// know.
func (n *Node) wake(now model.Now, out *loop.Outbox) {
	s := &n.serving
	end, all := n.ctl.Image().At().Offset.Next(), s.lead != n.lead || n.closed || n.failure != nil || n.phase != phaseMember
	moved := end != s.end
	s.end, s.lead = end, n.lead
	if len(s.parked) == 0 || !all && !moved && s.parked[0].until > now.Mono && n.nextPull() > now.Mono {
		return
	}
	kept := s.parked[:0]
	for _, p := range s.parked {
		var a *pullAnswer
		if n.phase == phaseMember && moved {
			a = n.news(p)
		}
		if a == nil && (all || p.until <= now.Mono) {
			a = n.nothing(p)
		}
		if a == nil {
			kept = append(kept, p)
			continue
		}
		n.replyPull(p, a, out)
	}
	clear(s.parked[len(kept):])
	s.parked = kept
}

// nextPull is when a pull has waited long enough.
func (n *Node) nextPull() model.Instant {
	next := model.Never
	for _, p := range n.serving.parked {
		next = min(next, p.until)
	}
	return next
}

// replyPull completes an answer and sends it off.
func (n *Node) replyPull(p *parked, a *pullAnswer, out *loop.Outbox) {
	at := n.ctl.Image().At()
	a.ClusterID, a.End, a.Confirmed = n.ctl.Image().ClusterID(), at.Offset.Next(), p.confirmed
	d := n.description.Load()
	a.Leader, a.Term = d.Leader, d.Epoch
	out.Add(&replied{p.reply, a.encode()})
}

// nothing is the answer that nothing has happened.
func (n *Node) nothing(p *parked) *pullAnswer {
	a := &pullAnswer{Snapshot: noImage()}
	if n.phase != phaseMember || p.request.Confirm && !p.confirmed {
		a.Status = pullNotReady
	}
	return a
}

// news returns the answer to a pull, or nil if there is nothing to tell yet.
func (n *Node) news(p *parked) *pullAnswer {
	q, at := p.request, n.ctl.Image().At()
	a := &pullAnswer{Snapshot: noImage()}
	if q.At.Offset > at.Offset {
		return nil // this node is behind
	}
	if q.At.Offset == model.NoOffset {
		a.Status = pullBehind
		return a
	}
	if hash, known := n.ring.at(q.At); known && hash != q.Hash {
		n.logger.Error("an observer's image differs", zap.Int32("node", int32(q.Node)), zap.Stringer("at", q.At),
			zap.Stringer("theirs", q.Hash), zap.Stringer("ours", hash))
		a.Status, a.Hash = pullDiverged, hash
		return a
	}
	if q.At == at {
		if p.confirmed {
			return a // that it is up to date is news to one that asked
		}
		return nil
	}
	term, err := n.store.Term(indexOf(q.At.Offset))
	switch {
	case err == nil && term != uint64(q.At.Epoch):
		a.Status = pullDiverged
		return a
	case err != nil:
		a.Status = pullBehind
		return a
	}
	if a.Payload, err = n.batches(indexOf(q.At.Offset)+1, indexOf(at.Offset)+1); err != nil {
		a.Status = pullBehind
		if !errors.Is(err, raft.ErrCompacted) {
			n.logger.Error("entries can't be read", zap.Error(err))
			a.Status = pullNotReady
		}
	}
	return a
}

// batches returns the entries from lo to below hi as they stand in the log, up
// to a bound but at least one.
func (n *Node) batches(lo, hi uint64) ([]byte, error) {
	entries, err := n.store.Entries(lo, hi, pullBytesMax)
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, e := range entries {
		b = metadata.AppendBatch(b, n.store.batchOf(e))
	}
	return b, nil
}

// piece returns a part of a snapshot file.
func (n *Node) piece(q *pullRequest) *pullAnswer {
	a := &pullAnswer{Snapshot: q.At, Position: q.Position}
	if q.At.Offset == model.NoOffset {
		a.Snapshot = n.store.snapshot.At
	}
	var err error
	a.Size, a.Payload, err = n.store.readPiece(a.Snapshot, q.Position)
	switch {
	case errors.Is(err, os.ErrNotExist):
		a.Status = pullGone
	case err != nil:
		n.logger.Error("snapshot can't be read", zap.Error(err))
		a.Status = pullNotReady
	}
	return a
}

// readPiece reads a part of a snapshot and returns its whole size too.
func (s *storage) readPiece(at model.OffsetAndEpoch, position int64) (int64, []byte, error) {
	f, err := s.fs.OpenFile(s.path(metadata.SnapshotName(at)), os.O_RDONLY, 0)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, nil, err
	}
	if position < 0 || position >= size {
		return 0, nil, fmt.Errorf("byte %d of a snapshot of %d: %w", position, size, os.ErrNotExist)
	}
	b := make([]byte, min(size-position, pullBytesMax))
	if k, err := f.ReadAt(b, position); k < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return size, b, nil
}

// ringSize is how many images back the hash is remembered.
const ringSize = 256

// hashRing remembers the hashes of the last images.
type hashRing struct {
	marks []hashMark
	next  int
}

type hashMark struct {
	at   model.OffsetAndEpoch
	hash metadata.Hash
}

func (r *hashRing) add(m *metadata.Image) {
	mark := hashMark{m.At(), m.Hash()}
	if len(r.marks) < ringSize {
		r.marks = append(r.marks, mark)
		return
	}
	r.marks[r.next%ringSize] = mark
	r.next++
}

// at returns the hash of the image at a place, if it is remembered.
func (r *hashRing) at(at model.OffsetAndEpoch) (metadata.Hash, bool) {
	for _, m := range r.marks {
		if m.at == at {
			return m.hash, true
		}
	}
	return metadata.Hash{}, false
}
