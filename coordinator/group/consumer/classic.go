package consumer

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
)

// Classic is what is kept of a member that speaks the classic protocol
// (JoinGroup, SyncGroup, Heartbeat): such members live in a consumer group while
// its clients change from one protocol to the other. Source: KIP-848.
type Classic struct {
	// SessionTimeoutMs is the session timeout it asked for.
	SessionTimeoutMs int32
	// Protocols are the ways of assigning that it offers, in its order, each with
	// what it says of itself.
	Protocols []Protocol
}

// Protocol is one way of assigning partitions that a classic member offers.
type Protocol struct {
	Name     string
	Metadata []byte
}

func sameClassic(a, b *Classic) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.SessionTimeoutMs == b.SessionTimeoutMs && slices.EqualFunc(a.Protocols, b.Protocols, func(x, y Protocol) bool {
		return x.Name == y.Name && bytes.Equal(x.Metadata, y.Metadata)
	})
}

// offers reports whether the member offers a protocol.
func (c *Classic) offers(name string) bool {
	return slices.ContainsFunc(c.Protocols, func(p Protocol) bool { return p.Name == name })
}

// JoinRequest is a JoinGroup of a classic member.
type JoinRequest struct {
	// Member is its id; New says that it was made just now, the request had none.
	Member               string
	New                  bool
	Instance, Rack       *string
	ClientID, ClientHost string
	RebalanceTimeoutMs   int32
	Names                []string
	Classic              Classic
	// Owned is what it has, by what it says of itself.
	Owned assign.Set
}

// Join decides the join of a classic member. The outcome's epoch is the
// generation that it is told.
func (g *Group) Join(r *JoinRequest, ts Topics) Outcome {
	old, replaced, out := g.findClassic(r)
	if out.Code != codeNone {
		return out
	}
	m := Member{}
	switch {
	case old != nil:
		m = *old
	case replaced != nil:
		m = *replaced
		m.Epoch, m.Previous = EpochJoin, EpochJoin
	}
	m.ID, m.Instance = r.Member, r.Instance
	m.ClientID, m.ClientHost = r.ClientID, r.ClientHost
	m.Names, m.Regex = slices.Compact(slices.Sorted(slices.Values(r.Names))), new(string)
	m.RebalanceTimeoutMs = r.RebalanceTimeoutMs
	if r.Rack != nil && *r.Rack != "" {
		m.Rack = r.Rack
	}
	m.Classic = &r.Classic
	return g.advance(old, replaced, &m, &r.Owned, ts, out)
}

// findClassic looks for the member that a join is of. replaced is the static
// member whose place it takes: nobody who comes with the classic protocol, or in
// the place of one who did, has to wait for the other to leave.
func (g *Group) findClassic(r *JoinRequest) (m, replaced *Member, out Outcome) {
	if r.Instance == nil {
		return g.members[r.Member], nil, out
	}
	id, known := g.static[*r.Instance]
	switch {
	case known && r.New:
		return nil, g.members[id], out
	case r.New:
		return nil, nil, out
	case !known:
		return nil, nil, refuse(CodeUnknownMemberID, "no such instance in the group")
	case id != r.Member:
		return nil, nil, refuse(CodeFencedInstanceID, "the instance has another member id")
	}
	return g.members[id], nil, out
}

// Static returns the member of an instance, nil if there is none.
func (g *Group) Static(instance string) *Member { return g.members[g.static[instance]] }

// Supports reports whether one of the protocols that a classic member offers is
// offered by all classic members that are there.
func (g *Group) Supports(protocolType string, names []string) bool {
	if protocolType != "consumer" {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool {
		for _, m := range g.members { // order-free: all of them
			if m.Classic != nil && !m.Classic.offers(name) {
				return false
			}
		}
		return true
	})
}

// OnlyClassicWithout reports whether members are left without those, and all of
// them speak the classic protocol, while those do not.
func (g *Group) OnlyClassicWithout(gone ...string) bool {
	left := 0
	for id, m := range g.members { // order-free: all of them
		if (m.Classic == nil) != slices.Contains(gone, id) {
			return false
		}
		if m.Classic != nil {
			left++
		}
	}
	return left > 0
}

// Settled reports whether all members have their targets. The one that is away may
// have left for a while.
func (g *Group) Settled(away string) bool {
	for id, m := range g.members { // order-free: all of them
		if m.State != Stable || m.Epoch != g.targetEpoch && id != away || !m.Assigned.Equal(g.target[id]) {
			return false
		}
	}
	return g.epoch == g.targetEpoch
}

// MustRejoin reports whether a classic member has to join again: there
// is a newer target, it has to give something up, or what it waited for is free.
func (g *Group) MustRejoin(m *Member) bool {
	return m.Epoch < g.epoch || m.State == Unrevoked || m.State == Unreleased && !g.waits(m)
}

// waits reports whether a member waits for partitions that others have.
func (g *Group) waits(m *Member) bool {
	_, missing := g.target[m.ID].Split(m.Assigned)
	for _, p := range missing {
		if _, taken := g.owners[p]; taken {
			return true
		}
	}
	return false
}

// Adopt returns the consumer group that a classic one becomes, and the records
// that make it: its members stay as they are, in the epoch that was their
// generation, with what they were assigned as their target. Whoever comes next
// begins another epoch, also if it takes another's place: the classic members may
// have been about to share once more what some of them had given up.
func Adopt(id string, generation int32, members []Member, ts Topics) (*Group, []coordinator.Record) {
	g := New(id)
	g.adopted = true
	all := make([]*Member, len(members))
	for i := range members {
		m := &members[i]
		m.Epoch, m.Previous, m.State = generation, generation, Stable
		all[i] = m
	}
	slices.SortFunc(all, func(a, b *Member) int { return cmp.Compare(a.ID, b.ID) })
	var rs []coordinator.Record
	for _, m := range all {
		rs = append(rs, memberRecord(id, m))
	}
	rs = append(rs, groupRecord(id, generation, digest(all, func(m *Member) map[string]assign.Topic { return g.reads(m, ts) })))
	for _, m := range all {
		rs = append(rs, targetMemberRecord(id, m.ID, m.Assigned))
	}
	rs = append(rs, targetRecord(id, generation))
	for _, m := range all {
		rs = append(rs, currentMemberRecord(id, m))
	}
	for _, r := range rs {
		if p, err := Parse(r); err == nil { // they were made just now
			g.Replay(p)
		}
	}
	return g, rs
}

// Dissolve returns the records that remove a group with its members.
func (g *Group) Dissolve() []coordinator.Record {
	var rs []coordinator.Record
	for _, kind := range []int16{keyCurrentMember, keyTargetMember, keyMember} {
		for _, id := range g.Members() {
			rs = append(rs, coordinator.Record{Key: key(kind, g.id, id)})
		}
	}
	return append(rs, Tombstones(g.id)...)
}
