package partition

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/tidemark/tidemark/log/epoch"
)

// replicaFetch judges a follower's fetch and counts its progress. The mark in
// the answer is taken before the progress is counted, so the high watermark that
// a follower learns lags one fetch, as Kafka's does.
func (leader) replicaFetch(p *Partition, now model.Now, f *ReplicaFetch, out *Output) {
	f.Result = ReplicaResult{Diverging: model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch}, Mark: p.mark}
	out.Replicas = append(out.Replicas, f)
	r := p.replica(f.Replica)
	if r != nil && !f.Reread {
		r.endLease()
	}
	if f.Result.Code = p.judgeReplica(r, f); f.Result.Code != CodeNone {
		return
	}
	verdict, end := p.plog.Epochs().Compare(f.Offset, f.LastEpoch, p.mark.LogStart, p.mark.LogEnd)
	if mutant.On("part-no-kip279") && verdict == epoch.Diverged && end.Offset >= f.Offset {
		verdict = epoch.Agrees
	}
	if verdict == epoch.Agrees && p.incomparable(f) {
		verdict, end = epoch.Diverged, model.OffsetAndEpoch{Offset: f.Offset, Epoch: f.LastEpoch}
	}
	switch {
	case verdict == epoch.Diverged:
		f.Result.Diverging = end
		return
	case verdict == epoch.OutOfRange, f.Offset < p.mark.LogStart, f.Offset > p.mark.LogEnd:
		f.Result.Code = CodeOffsetOutOfRange
		return
	}
	if f.Reread {
		return
	}
	r.fetched(now, f, p.mark.LogEnd)
	p.watchISR(now)
	p.maybeExpand(r, out)
	p.advance(now, out)
	p.releaseDeletes(out)
	p.grant(r, f)
}

// incomparable says that a follower from outside the ISR ends where this log
// starts, in an epoch of which nothing is left here: whether it has what was here
// can't be told. It has to begin anew, as if it had more.
func (p *Partition) incomparable(f *ReplicaFetch) bool {
	first, known := p.plog.Epochs().Earliest()
	return known && f.LastEpoch >= 0 && f.LastEpoch < first.Epoch && f.Offset == p.mark.LogStart && f.LogStart < f.Offset && !p.isr.inMaximal(f.Replica)
}

// judgeReplica makes the checks that come before the log is looked at.
func (p *Partition) judgeReplica(r *replica, f *ReplicaFetch) Code {
	if c := p.CheckEpoch(f.CurrentEpoch); c != CodeNone && !mutant.On("part-fetch-no-epoch-fence") {
		return c
	}
	if r == nil {
		if f.CurrentEpoch == model.NoEpoch {
			return CodeNotLeaderOrFollower
		}
		return CodeUnknownLeaderEpoch
	}
	if f.BrokerEpoch != model.NoBrokerEpoch && f.BrokerEpoch < p.peer(r.id).Epoch {
		return CodeNotLeaderOrFollower
	}
	return CodeNone
}

// CheckEpoch compares the leader epoch that a client believes in with ours; -1
// is not compared.
func (p *Partition) CheckEpoch(current model.LeaderEpoch) Code {
	return p.mark.CheckEpoch(current)
}

// CheckEpoch compares the leader epoch that a client believes in with the
// mark's; -1 is not compared. Source: KIP-320.
func (m *Mark) CheckEpoch(current model.LeaderEpoch) Code {
	switch {
	case current < 0 || current == m.LeaderEpoch:
		return CodeNone
	case current < m.LeaderEpoch:
		return CodeFencedLeaderEpoch
	}
	return CodeUnknownLeaderEpoch
}
