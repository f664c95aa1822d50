package partition

import (
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
)

// follower is the role of a replica that doesn't lead: every write and every
// replica's fetch is answered NOT_LEADER_OR_FOLLOWER. Consumers may read from it
// (KIP-392), so fetches wait here too. What it does with the leader's answers
// stands in follow.go.
type follower struct{}

func (follower) kind() Role { return Follower }

func (follower) produce(p *Partition, _ model.Now, m *Produce, out *Output) {
	p.fail(m, CodeNotLeaderOrFollower, "", out)
}

func (follower) wait(p *Partition, _ model.Now, w *FetchWait, out *Output) { p.park(w, out) }

func (follower) replicaFetch(p *Partition, _ model.Now, f *ReplicaFetch, out *Output) {
	p.refuseReplica(f, CodeNotLeaderOrFollower, out)
}

func (p *Partition) refuseReplica(f *ReplicaFetch, c Code, out *Output) {
	f.Result = ReplicaResult{
		Code: c, Mark: p.mark,
		Diverging: model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch},
	}
	out.Replicas = append(out.Replicas, f)
}

func (follower) deleteRecords(p *Partition, _ model.Now, d *DeleteRecords, out *Output) {
	p.refuseDelete(d, CodeNotLeaderOrFollower, out)
}

// alterAnswered is the answer to a proposal of an earlier leadership.
func (follower) alterAnswered(*Partition, model.Now, AlterAnswer, *Output) {}

func (follower) written(p *Partition, now model.Now, kind WriteKind, w Written, out *Output) {
	if w.Fault == FaultBroken {
		p.becomeOffline(CodeStorageError, out)
		return
	}
	f := p.applying
	if kind == WriteTruncate && f == nil && p.truncatesToHW() {
		p.setEnds(w.LogStart, p.mark.HighWatermark, w.LogEnd, out)
		p.durable = min(p.durable, w.LogEnd)
		return
	}
	if kind == WriteRetain {
		p.logStartRaised(w, out)
		return
	}
	assert.That(f != nil, "a follower completed write %d that no answer asked for", kind)
	switch kind {
	case WriteAppend, WriteRefill:
		p.copied(now, f, w, out)
	case WriteTruncate, WriteRestart:
		p.truncated(f, w, out)
	case WriteLogStart:
		p.followedStart(f, w, out)
	default:
		assert.Unreachable("a follower completed write %d", kind)
	}
}

func (follower) flushed(p *Partition, now model.Now, to model.Offset, _ *Output) {
	p.durableTo(now, to)
}

func (follower) tick(p *Partition, now model.Now, _ *Output) {
	p.flushDue(now)
	p.sweepProducers(now)
}
