package partition

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

// register takes what the cluster has agreed on. An image older than the one
// already taken is ignored; an equal one is taken again, since what is known of
// the brokers may have changed.
func (p *Partition) register(now model.Now, r *Registration, out *Output) {
	if r.PartitionEpoch < p.partitionEpoch || r.LeaderEpoch < p.mark.LeaderEpoch {
		return
	}
	p.endLeases()
	if p.mark.Role == Offline {
		p.leader, p.partitionEpoch, p.mark.LeaderEpoch = r.Leader, r.PartitionEpoch, r.LeaderEpoch
		return
	}
	if r.Leader == p.self {
		p.becomeLeader(now, r, out)
		return
	}
	p.becomeFollower(r, out)
}

// becomeLeader starts or continues this replica's leadership. A new epoch's
// start is written at the log end before anything can be appended, so that an
// epoch without records is visible too. The high watermark is kept, however far
// behind it is: nothing is truncated on a leader.
func (p *Partition) becomeLeader(now model.Now, r *Registration, out *Output) {
	newEpoch := r.LeaderEpoch > p.mark.LeaderEpoch
	ledBefore := p.mark.Role == Leader
	isrChanged := !ledBefore || !slices.Equal(p.isr.committed, r.ISR)
	changed := r.PartitionEpoch > p.partitionEpoch || !ledBefore

	p.role, p.mark.Role = leader{}, Leader
	p.leader, p.partitionEpoch, p.mark.LeaderEpoch = r.Leader, r.PartitionEpoch, r.LeaderEpoch
	p.peers = slices.Clone(r.Replicas)
	if changed {
		p.isr.commit(r.ISR)
	}
	p.keepRemote(now, newEpoch || !ledBefore, ledBefore)
	if newEpoch || !ledBefore {
		p.abandonFetched(out)
		p.follow(out)
		p.epochStart, p.ledSince = p.mark.LogEnd, now.Mono
		p.shrinkAt = model.Never
		p.watchISR(now)
		p.wakeAll(out)
		out.Events = append(out.Events, Event{Kind: EventLeader, Mark: p.mark, ISR: p.isr.committed})
		if p.cfg.FlushBeforeAck() && p.durable < p.mark.LogEnd {
			// What a start has found behind the recovery point is exposed once it is
			// durable, and nobody need write anything for that.
			p.flushWanted = FlushNow
		}
		// The completion advances the high watermark.
		p.write(out, Write{Kind: WriteEpoch, Offset: p.mark.LogEnd, Epoch: r.LeaderEpoch})
		return
	}
	if isrChanged {
		out.Events = append(out.Events, Event{Kind: EventISRCommitted, Mark: p.mark, ISR: p.isr.committed})
	}
	p.watchISR(now)
	p.advance(now, out)
	p.releaseDeletes(out)
}

// keepRemote makes p.remote the assigned replicas without this one.
func (p *Partition) keepRemote(now model.Now, reset, ledBefore bool) {
	old := p.remote
	p.remote = make([]replica, 0, len(p.peers))
	for _, peer := range p.peers {
		if peer.ID == p.self {
			continue
		}
		r := replica{id: peer.ID}
		i := slices.IndexFunc(old, func(o replica) bool { return o.id == peer.ID })
		if i >= 0 {
			r = old[i]
		}
		if reset || i < 0 {
			r.reset(now, p.mark.LogEnd, p.isr.inCommitted(peer.ID), ledBefore && i >= 0)
		}
		p.remote = append(p.remote, r)
	}
}

// becomeFollower ends a leadership, or follows another leader or nobody.
func (p *Partition) becomeFollower(r *Registration, out *Output) {
	changed := p.mark.Role != Follower || p.leader != r.Leader || p.mark.LeaderEpoch != r.LeaderEpoch
	p.role, p.mark.Role = follower{}, Follower
	p.leader, p.partitionEpoch, p.mark.LeaderEpoch = r.Leader, r.PartitionEpoch, r.LeaderEpoch
	p.peers = slices.Clone(r.Replicas)
	p.isr.commit(nil)
	p.remote, p.epochStart, p.shrinkAt = nil, model.NoOffset, model.Never
	if !changed {
		return
	}
	p.failWrites(CodeNotLeaderOrFollower, out)
	p.abandonFetched(out)
	p.follow(out)
	p.wakeAll(out)
	out.Events = append(out.Events, Event{Kind: EventFollower, Mark: p.mark})
}

// becomeOffline gives everything up. Everything that waits, and everything that
// was put off while a write was outstanding, is answered at once.
func (p *Partition) becomeOffline(c Code, out *Output) {
	was := p.mark.Role
	p.endLeases()
	p.role, p.mark.Role, p.offlineCode = offline{}, Offline, c
	p.remote, p.epochStart, p.shrinkAt = nil, model.NoOffset, model.Never
	p.flushAt, p.sweepAt, p.flushWanted = model.Never, model.Never, FlushNone
	p.isr.commit(nil)
	p.writing = WriteNone
	p.failWrites(c, out)
	p.abandonFetched(out)
	p.follow(out)
	p.wakeAll(out)
	if was != Offline {
		out.Events = append(out.Events, Event{Kind: EventOffline, Mark: p.mark, Code: c})
	}
}

// configure takes new settings. A smaller min ISR or another flush mode may let
// the high watermark move at once.
func (p *Partition) configure(now model.Now, c *Config, out *Output) {
	wasFlushing := p.cfg.FlushBeforeAck()
	p.cfg = *c
	if p.mark.Role == Offline {
		return
	}
	p.flushAt = model.Never
	if p.durable < p.mark.LogEnd {
		p.noteUnsynced(now, false)
		if c.FlushBeforeAck() && !wasFlushing {
			p.flushWanted = FlushNow
		}
	}
	if p.mark.Role == Leader {
		p.advance(now, out)
	}
}
