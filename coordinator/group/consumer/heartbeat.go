package consumer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
)

// Code is an error code of the Kafka protocol.
type Code = coordinator.Code

// The codes that members are refused with.
const (
	CodeIllegalGeneration        Code = 22
	CodeUnknownMemberID          Code = 25
	CodeInvalidRequest           Code = 42
	CodeGroupMaxSizeReached      Code = 81
	CodeFencedInstanceID         Code = 82
	CodeFencedMemberEpoch        Code = 110
	CodeUnreleasedInstanceID     Code = 111
	CodeUnsupportedAssignor      Code = 112
	CodeStaleMemberEpoch         Code = 113
	CodeInvalidRegularExpression Code = 128
	codeNone                     Code = 0
)

// Request is a heartbeat of a member that joins or stays. A nil field is one that
// has not changed.
type Request struct {
	Member               string
	Epoch                int32
	Instance, Rack       *string
	ClientID, ClientHost string
	RebalanceTimeoutMs   int32 // -1: as before
	Names                []string
	Regex                *string
	Assignor             *string
	Owned                *assign.Set
}

// full reports whether the member says all of itself: it may have forgotten what
// it was told.
func (r *Request) full() bool {
	return r.Epoch == EpochJoin || r.RebalanceTimeoutMs >= 0 && (r.Names != nil || r.Regex != nil) && r.Owned != nil
}

// Outcome is what a request comes to.
type Outcome struct {
	// Code refuses the request; nothing else is set then, but for why.
	Code Code
	Why  string
	// Records are to be written before the answer is given.
	Records []coordinator.Record
	// Epoch is the member's.
	Epoch int32
	// Assigned is what the member may read, if it is to be told.
	Assigned assign.Set
	Tell     bool
	// Stale says that the target had to be made anew.
	Stale bool
}

func refuse(code Code, why string) Outcome { return Outcome{Code: code, Why: why} }

// Heartbeat decides a heartbeat of a member that joins or stays. sizeMax bounds
// the members.
func (g *Group) Heartbeat(r *Request, ts Topics, sizeMax int) Outcome {
	old, replaced, out := g.find(r)
	if out.Code != codeNone {
		return out
	}
	if old == nil && replaced == nil && len(g.members) >= sizeMax {
		return refuse(CodeGroupMaxSizeReached, "the group is full")
	}
	m := g.updated(old, replaced, r)
	out = g.advance(old, replaced, m, r.Owned, ts, out)
	out.Tell = r.full() || out.Tell
	return out
}

// advance takes a member as it now describes itself into the group, and moves it
// towards its target. old is how it was, replaced whose place it takes.
func (g *Group) advance(old, replaced, m *Member, owned *assign.Set, ts Topics, out Outcome) Outcome {
	if replaced != nil {
		out.Records = append(out.Records, memberTombstones(g.id, replaced.ID)...)
	}
	if old == nil || !sameSelf(m, old) {
		out.Records = append(out.Records, memberRecord(g.id, m))
	}
	if replaced != nil {
		out.Records = append(out.Records, targetMemberRecord(g.id, m.ID, g.target[replaced.ID]))
	}

	// The members as they will be.
	all := g.with(m, replaced)
	epoch := g.epoch
	resubscribed := g.adopted || old == nil && replaced == nil || !sameSubscription(m, cmp.Or(old, replaced))
	if resubscribed || g.seen != ts.Version() {
		hash := digest(all, func(m *Member) map[string]assign.Topic { return g.reads(m, ts) })
		if resubscribed || hash != g.hash {
			epoch++
			out.Records = append(out.Records, groupRecord(g.id, epoch, hash))
		} else {
			g.seen = ts.Version()
		}
	}
	out.Stale = epoch > g.targetEpoch
	target, targetEpoch := g.target[m.ID], g.targetEpoch
	if replaced != nil {
		target = g.target[replaced.ID]
	}
	if out.Stale {
		target = g.aim(all, m, replaced, ts, &out)
		targetEpoch = epoch
		out.Records = append(out.Records, targetRecord(g.id, epoch))
	}
	next := g.arrive(*m, replaced, target, targetEpoch, owned)
	if old == nil || !sameProgress(&next, old) {
		out.Records = append(out.Records, currentMemberRecord(g.id, &next))
	}
	out.Epoch, out.Assigned = next.Epoch, next.Assigned
	out.Tell = old == nil || !next.Assigned.Equal(old.Assigned)
	return out
}

// arrive is reconcile for a member that may have taken another's place: what that
// one had is free for it.
func (g *Group) arrive(m Member, replaced *Member, target assign.Set, targetEpoch int32, owned *assign.Set) Member {
	if replaced != nil {
		mine := m.ID
		m.ID = replaced.ID
		m = g.reconcile(m, target, targetEpoch, owned)
		m.ID = mine
		return m
	}
	return g.reconcile(m, target, targetEpoch, owned)
}

// find looks for the member that a heartbeat is of. replaced is the static member
// whose place a new one takes.
func (g *Group) find(r *Request) (m, replaced *Member, out Outcome) {
	if r.Instance != nil {
		id, known := g.static[*r.Instance]
		switch old := g.members[id]; {
		case known && id == r.Member:
			m = old
		case r.Epoch == EpochJoin && known && old.Epoch != EpochLeaveStatic && old.Classic == nil:
			return nil, nil, refuse(CodeUnreleasedInstanceID, "the instance is in the group as member "+id)
		case r.Epoch == EpochJoin && known:
			return nil, old, out
		case r.Epoch == EpochJoin:
			return nil, nil, out
		case known:
			return nil, nil, refuse(CodeFencedInstanceID, "the instance has another member id")
		default:
			return nil, nil, refuse(CodeUnknownMemberID, "no such instance in the group")
		}
	} else {
		m = g.members[r.Member]
	}
	switch {
	case r.Epoch == EpochJoin:
		return m, nil, out
	case m == nil:
		return nil, nil, refuse(CodeUnknownMemberID, "no such member in the group")
	case r.Epoch > m.Epoch:
		return nil, nil, refuse(CodeFencedMemberEpoch, "the member's epoch is smaller than what it says")
	case r.Epoch < m.Epoch && (r.Epoch != m.Previous || r.Owned == nil || !r.Owned.Within(m.Assigned)):
		return nil, nil, refuse(CodeFencedMemberEpoch, "the member's epoch is greater than what it says")
	}
	return m, nil, out
}

// updated is the member as it now describes itself.
func (g *Group) updated(old, replaced *Member, r *Request) *Member {
	next := Member{ID: r.Member, Instance: r.Instance}
	switch {
	case old != nil:
		next = *old
		if r.Epoch == EpochJoin {
			// It begins anew; what it had it no longer has.
			next.Epoch, next.Previous = EpochJoin, EpochJoin
		}
	case replaced != nil:
		next = *replaced
		next.ID, next.Epoch, next.Previous = r.Member, EpochJoin, EpochJoin
	}
	next.ClientID, next.ClientHost = r.ClientID, r.ClientHost
	if r.Rack != nil {
		next.Rack = r.Rack
	}
	if r.RebalanceTimeoutMs >= 0 {
		next.RebalanceTimeoutMs = r.RebalanceTimeoutMs
	}
	if r.Names != nil {
		next.Names = slices.Compact(slices.Sorted(slices.Values(r.Names)))
	}
	if r.Regex != nil {
		next.Regex = r.Regex
	}
	if r.Assignor != nil {
		next.Assignor = r.Assignor
	}
	next.Classic = nil
	return &next
}

// sameSelf reports whether two members say the same of themselves.
func sameSelf(a, b *Member) bool {
	return sameSubscription(a, b) && a.RebalanceTimeoutMs == b.RebalanceTimeoutMs && same(a.Rack, b.Rack) && same(a.Assignor, b.Assignor) &&
		a.ClientID == b.ClientID && a.ClientHost == b.ClientHost && sameClassic(a.Classic, b.Classic)
}

func same(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// sameSubscription reports whether two members read the same; an empty pattern is
// none.
func sameSubscription(a, b *Member) bool {
	none := new(string)
	return slices.Equal(a.Names, b.Names) && *cmp.Or(a.Regex, none) == *cmp.Or(b.Regex, none)
}

func sameProgress(a, b *Member) bool {
	return a.Epoch == b.Epoch && a.Previous == b.Previous && a.State == b.State && a.Assigned.Equal(b.Assigned) && a.Revoking.Equal(b.Revoking)
}

// with returns the members with m among them, sorted by id, without replaced.
func (g *Group) with(m, replaced *Member) []*Member {
	all := make([]*Member, 0, len(g.members)+1)
	all = append(all, m)
	for id, o := range g.members { // order-free: sorted below
		if id != m.ID && o != replaced {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *Member) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// aim makes a new target, writes what of it is new, and returns m's part.
func (g *Group) aim(all []*Member, m, replaced *Member, ts Topics, out *Outcome) assign.Set {
	in := make([]assign.Member, len(all))
	for i, o := range all {
		has := g.target[o.ID]
		if o == m && replaced != nil {
			has = g.target[replaced.ID]
		}
		in[i] = assign.Member{ID: o.ID, Instance: *cmp.Or(o.Instance, new(string)), Has: has}
		reads := g.reads(o, ts)
		for _, name := range slices.Sorted(maps.Keys(reads)) { // order-free: sorted
			in[i].Topics = append(in[i].Topics, reads[name])
		}
	}
	var mine assign.Set
	for i, target := range assign.ByName(preferred(all))(in) {
		if all[i] == m {
			mine = target
		}
		if old, known := g.target[all[i].ID]; !known || !old.Equal(target) {
			out.Records = append(out.Records, targetMemberRecord(g.id, all[i].ID, target))
		}
	}
	return mine
}

// preferred is the assignor that most members ask for; of equals the one that is
// first by default.
func preferred(members []*Member) string {
	votes := make(map[string]int)
	for _, m := range members {
		if m.Assignor != nil {
			votes[*m.Assignor]++
		}
	}
	best := assign.Names()[0]
	for _, name := range assign.Names() {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// Assignor returns the assignor in use.
func (g *Group) Assignor() string { return preferred(slices.Collect(maps.Values(g.members))) } // order-free: counted
