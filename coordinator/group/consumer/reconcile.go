package consumer

import (
	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/internal/mutant"
)

// reconcile moves a member towards its target as far as it can go now. owned is
// what it says that it has; nil is that it says nothing. Source: KIP-848, Kafka's
// CurrentAssignmentBuilder.
func (g *Group) reconcile(m Member, target assign.Set, targetEpoch int32, owned *assign.Set) Member {
	switch m.State {
	case Stable:
		if m.Epoch == targetEpoch {
			return m
		}
	case Unrevoked:
		if owned == nil || owned.Touches(m.Revoking) {
			return m
		}
	}
	keep, revoke := m.Assigned.Split(target)
	_, missing := target.Split(keep)
	free, held := g.free(m.ID, missing)
	next := m
	next.Assigned, next.Revoking = keep, nil
	if len(revoke) > 0 && (owned == nil || owned.Touches(revoke)) {
		next.State, next.Revoking = Unrevoked, revoke
		return next
	}
	if m.Epoch != targetEpoch {
		next.Previous, next.Epoch = m.Epoch, targetEpoch
	}
	next.Assigned = keep.Union(free)
	next.State = Stable
	if held {
		next.State = Unreleased
	}
	return next
}

// free returns what of a set nobody else has, and whether anything is held.
func (g *Group) free(id string, s assign.Set) (free assign.Set, held bool) {
	for _, p := range s {
		if owner, taken := g.owners[p]; taken && owner != id && !mutant.On("group-unreleased-given") {
			held = true
		} else {
			free = append(free, p)
		}
	}
	return free, held
}
