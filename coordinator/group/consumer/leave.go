package consumer

import (
	"slices"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
)

// Leave decides a heartbeat with EpochLeave or EpochLeaveStatic.
func (g *Group) Leave(member string, instance *string, epoch int32, ts Topics) Outcome {
	m := g.members[member]
	if instance != nil {
		id, known := g.static[*instance]
		switch {
		case !known:
			return refuse(CodeUnknownMemberID, "no such instance in the group")
		case id != member:
			return refuse(CodeFencedInstanceID, "the instance has another member id")
		}
		m = g.members[id]
	}
	if m == nil {
		return refuse(CodeUnknownMemberID, "no such member in the group")
	}
	if epoch == EpochLeaveStatic {
		// It keeps its place until its session is over.
		away := *m
		away.Epoch, away.Previous, away.State, away.Revoking = EpochLeaveStatic, m.Epoch, Stable, nil
		return Outcome{Records: []coordinator.Record{currentMemberRecord(g.id, &away)}, Epoch: epoch}
	}
	return Outcome{Records: g.Remove(ts, member), Epoch: epoch}
}

// Remove returns the records that take members out and have the others share
// what they had.
func (g *Group) Remove(ts Topics, gone ...string) []coordinator.Record {
	var rs []coordinator.Record
	for _, id := range gone {
		if g.members[id] != nil {
			rs = append(rs, memberTombstones(g.id, id)...)
		}
	}
	if len(rs) == 0 {
		return nil
	}
	rest := make([]*Member, 0, len(g.members))
	for _, id := range g.Members() {
		if !slices.Contains(gone, id) {
			rest = append(rest, g.members[id])
		}
	}
	hash := digest(rest, func(m *Member) map[string]assign.Topic { return g.reads(m, ts) })
	return append(rs, groupRecord(g.id, g.epoch+1, hash))
}

// MayCommit checks who commits an offset or reads one as a member.
func (g *Group) MayCommit(member string, instance *string, epoch int32) Code {
	m := g.members[member]
	if instance != nil {
		if id, known := g.static[*instance]; known && id != member {
			return CodeFencedInstanceID
		}
	}
	switch {
	case m == nil:
		return CodeUnknownMemberID
	case m.Epoch != epoch && m.Classic != nil:
		return CodeIllegalGeneration
	case m.Epoch != epoch:
		return CodeStaleMemberEpoch
	}
	return codeNone
}
