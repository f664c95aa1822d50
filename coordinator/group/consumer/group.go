package consumer

import (
	"maps"
	"regexp"
	"slices"

	"github.com/tidemark/tidemark/coordinator/group/assign"
)

// MemberState is how far a member has come. The numbers are those of Kafka's
// records.
type MemberState int8

// The states of a member.
const (
	Stable     MemberState = 0 // it has its target
	Unrevoked  MemberState = 1 // it has to give up partitions
	Unreleased MemberState = 2 // it waits for partitions that others have to give up
)

// Epochs of a member with a meaning of their own.
const (
	// EpochJoin is what a member that is not in the group yet sends.
	EpochJoin int32 = 0
	// EpochLeave is what a member sends that goes for good.
	EpochLeave int32 = -1
	// EpochLeaveStatic is what a static member sends that will be back, and its
	// epoch until it is.
	EpochLeaveStatic int32 = -2
)

// Member is one member of a group.
type Member struct {
	ID                   string
	Instance, Rack       *string
	ClientID, ClientHost string
	// Names and Regex are what it subscribes to.
	Names []string
	Regex *string
	// RebalanceTimeoutMs is how long it may take to give up partitions.
	RebalanceTimeoutMs int32
	// Assignor is the one it asks for, nil if it leaves that to the coordinator.
	Assignor *string
	// Classic is nil unless it speaks the classic protocol.
	Classic *Classic

	Epoch, Previous int32
	State           MemberState
	// Assigned is what it may read; Revoking what it has to give up first.
	Assigned, Revoking assign.Set
}

// Group is a consumer group. The zero Group is not usable; see New.
type Group struct {
	id          string
	epoch       int32
	hash        int64
	targetEpoch int32
	members     map[string]*Member
	static      map[string]string // member ids by instance
	target      map[string]assign.Set
	// owners says who has a partition, or has yet to give it up.
	owners map[assign.Partition]string
	// adopted: it was a classic group until now, and the target is to be made anew.
	adopted bool

	// What was found out about the topics as of version seen; it is no part of
	// the state.
	seen     int64
	patterns map[string]*pattern
}

// pattern is a regular expression of a member, and what it matched.
type pattern struct {
	re     *regexp.Regexp
	seen   int64
	topics []string
}

// New returns a group without members.
func New(id string) *Group {
	return &Group{
		id: id, members: make(map[string]*Member), static: make(map[string]string), target: make(map[string]assign.Set),
		owners: make(map[assign.Partition]string), patterns: make(map[string]*pattern), seen: -1,
	}
}

// Members returns the members' ids, sorted.
func (g *Group) Members() []string { return slices.Sorted(maps.Keys(g.members)) } // order-free: sorted

// Member returns a member, nil if there is none of that id. It is not to be
// changed.
func (g *Group) Member(id string) *Member { return g.members[id] }

// Len is the number of members.
func (g *Group) Len() int { return len(g.members) }

// Epochs returns the group's epoch and the one that its target was made for.
func (g *Group) Epochs() (group, target int32) { return g.epoch, g.targetEpoch }

// Target returns what a member is to have in the end.
func (g *Group) Target(id string) assign.Set { return g.target[id] }

// State is the group's state by the name that the protocol uses. Source: KIP-848.
func (g *Group) State() string {
	switch {
	case len(g.members) == 0:
		return "Empty"
	case g.epoch > g.targetEpoch:
		return "Assigning"
	}
	for _, m := range g.members { // order-free: any will do
		if m.State != Stable || m.Epoch != g.targetEpoch {
			return "Reconciling"
		}
	}
	return "Stable"
}

// Replay takes one record of the group: the only way in which it changes.
func (g *Group) Replay(r Record) {
	switch r.kind {
	case keyGroup:
		g.epoch, g.hash = r.epoch, r.hash
	case keyTarget:
		g.targetEpoch = r.epoch
	case keyTargetMember:
		if r.gone {
			delete(g.target, r.member)
		} else {
			g.target[r.member] = r.target
		}
	case keyMember:
		g.replayMember(r)
	case keyCurrentMember:
		g.replayCurrent(r)
	}
}

func (g *Group) replayMember(r Record) {
	m := g.members[r.member]
	if m != nil && m.Instance != nil && g.static[*m.Instance] == m.ID {
		delete(g.static, *m.Instance)
	}
	if r.gone {
		if m != nil {
			g.release(m)
			delete(g.members, r.member)
		}
		return
	}
	next := r.value
	if m != nil {
		next.Epoch, next.Previous, next.State, next.Assigned, next.Revoking = m.Epoch, m.Previous, m.State, m.Assigned, m.Revoking
	}
	g.members[r.member] = &next
	if next.Instance != nil {
		g.static[*next.Instance] = next.ID
	}
}

func (g *Group) replayCurrent(r Record) {
	m := g.members[r.member]
	if m == nil {
		return // its own tombstone follows, or came before
	}
	g.release(m)
	next := *m
	next.Epoch, next.Previous, next.State, next.Assigned, next.Revoking = r.value.Epoch, r.value.Previous, r.value.State, r.value.Assigned, r.value.Revoking
	if r.gone {
		next.Epoch = EpochLeave
	}
	g.members[r.member] = &next
	for _, s := range []assign.Set{next.Assigned, next.Revoking} {
		for _, p := range s {
			g.owners[p] = next.ID
		}
	}
}

// release frees what a member has.
func (g *Group) release(m *Member) {
	for _, s := range []assign.Set{m.Assigned, m.Revoking} {
		for _, p := range s {
			if g.owners[p] == m.ID {
				delete(g.owners, p)
			}
		}
	}
}
