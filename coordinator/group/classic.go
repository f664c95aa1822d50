package group

import (
	"bytes"
	"slices"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
)

// State is where a classic group stands.
type State uint8

// The states, by Kafka's names.
const (
	Empty               State = iota // no members; offsets may be left
	PreparingRebalance               // waits for members to join
	CompletingRebalance              // waits for the leader's assignment
	Stable                           // members have their assignments
	Dead                             // there is no such group
)

// String returns the name that the protocol uses.
func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// consumerType is the protocol type of consumers: the coordinator understands
// their subscriptions.
const consumerType = "consumer"

// classic is the membership of a group under the classic protocol.
type classic struct {
	state    State
	previous State
	// since is when the state was entered, NoTimestamp if nobody knows.
	since model.Timestamp

	// typed: protocolType has been set by the first member.
	typed        bool
	protocolType string
	generation   int32
	// chosen: protocol is what the members agreed on.
	chosen   bool
	protocol string
	leader   string // a member's id, "" without
	// assigned is the generation whose assignments were given to the log last. There
	// is one such record in each: a leader that asks again before it is committed may
	// assign otherwise, and what members had been told of the first would not be
	// what another coordinator reads.
	assigned int32
	// unassigned: its record names no leader. It was a consumer group, and what the
	// members of that protocol had has no reader yet.
	unassigned bool

	members []*member // in the order they joined
	byID    map[string]*member
	static  map[string]*member // by group.instance.id
	unused  map[string]*member // ids given away (KIP-394)
	joining int                // members whose join is parked

	// subscribed is what the members of a consumer group read; known says that
	// all of them could be understood.
	subscribed map[string]bool
	known      bool

	join timer // ends the joining phase
	sync timer // ends the wait for syncs
	// In the first joining phase of an empty group: whether somebody came since
	// the timer was set, and how much longer it may be prolonged.
	came      bool
	remaining model.Instant
}

// member is one member, or an id that was given away.
type member struct {
	id         string
	instance   *string // group.instance.id of a static member
	clientID   string
	clientHost string

	rebalanceTimeout model.Instant
	sessionTimeout   model.Instant
	protocolType     string
	protocols        []protocol
	assignment       []byte

	// fresh: its first join has not been answered.
	fresh bool
	// owesSync: it has not asked for its assignment in this generation.
	owesSync bool
	joining  *coordinator.Call // parked
	syncing  *coordinator.Call // parked
	session  timer
	deadline model.Instant // of the session; the timer may be earlier
}

// protocol is one way of assigning partitions that a member offers.
type protocol struct {
	name     string
	metadata []byte
}

func newClassic(g *group) *classic {
	c := &classic{
		since: model.NoTimestamp, byID: make(map[string]*member),
		static: make(map[string]*member), unused: make(map[string]*member),
	}
	c.join = timer{kind: timerJoin, group: g}
	c.sync = timer{kind: timerSync, group: g}
	return c
}

// enter changes the state. Source: the transitions of Kafka's ClassicGroup.
func (m *Machine) enter(now model.Now, c *classic, s State) {
	legal := [...][]State{
		Empty:               {PreparingRebalance},
		PreparingRebalance:  {Empty, CompletingRebalance, Stable},
		CompletingRebalance: {PreparingRebalance},
		Stable:              {CompletingRebalance},
	}
	assert.That(slices.Contains(legal[s], c.state), "a group goes from %s to %s", c.state, s)
	m.stats.Groups[c.state]--
	m.stats.Groups[s]++
	c.previous, c.state, c.since = c.state, s, now.Wall
}

// add takes a member in.
func (c *classic) add(mem *member) {
	if len(c.members) == 0 {
		c.typed, c.protocolType = true, mem.protocolType
	}
	if mem.instance != nil {
		c.static[*mem.instance] = mem
	}
	if c.leader == "" {
		c.leader = mem.id
	}
	c.members = append(c.members, mem)
	c.byID[mem.id] = mem
}

// park keeps a member's join until the phase ends. An older one of the same
// member is told to join again: it has been overtaken.
func (c *classic) park(mem *member, call *coordinator.Call, out *coordinator.Out) {
	if mem.joining != nil {
		out.Answer(mem.joining, joinError(mem.joining, mem.id, codeRebalanceInProgress))
	} else {
		c.joining++
	}
	mem.joining = call
}

// answerJoin ends a member's parked join.
func (c *classic) answerJoin(mem *member, response any, out *coordinator.Out) {
	if mem.joining == nil {
		return
	}
	out.Answer(mem.joining, response)
	mem.joining = nil
	c.joining--
}

// remove takes a member out; what it waits for is answered with code.
func (m *Machine) remove(g *group, mem *member, code Code, out *coordinator.Out) {
	c := g.classic
	m.timers.cancel(&mem.session)
	if mem.joining != nil {
		c.answerJoin(mem, joinError(mem.joining, "", code), out)
	}
	answerSync(mem, code, nil, nil, nil, out)
	c.members = slices.DeleteFunc(c.members, func(o *member) bool { return o == mem })
	delete(c.byID, mem.id)
	if mem.instance != nil && c.static[*mem.instance] == mem {
		delete(c.static, *mem.instance)
	}
	if c.leader == mem.id {
		c.leader = ""
		if len(c.members) > 0 {
			c.leader = c.members[0].id
		}
	}
}

// checkMember validates who asks. Source: ClassicGroup.validateMember.
func (c *classic) checkMember(id string, instance *string) (*member, Code) {
	if instance != nil {
		switch mem := c.static[*instance]; {
		case mem == nil:
			return nil, codeUnknownMemberID
		case mem.id != id:
			return nil, codeFencedInstanceID
		default:
			return mem, codeNone
		}
	}
	if mem := c.byID[id]; mem != nil {
		return mem, codeNone
	}
	return nil, codeUnknownMemberID
}

// supports reports whether a member with these protocols can be in the group.
func (c *classic) supports(protocolType string, protocols []protocol) bool {
	if protocolType == "" || len(protocols) == 0 {
		return false
	}
	if c.state == Empty || len(c.members) == 0 && !c.typed {
		return true
	}
	if c.protocolType != protocolType {
		return false
	}
	for _, p := range protocols {
		if c.offeredByAll(p.name) {
			return true
		}
	}
	return false
}

// offeredByAll reports whether every member offers the protocol.
func (c *classic) offeredByAll(name string) bool {
	for _, mem := range c.members {
		if mem.metadata(name) == nil {
			return false
		}
	}
	return true
}

// choose returns the protocol that most members like best among those that all
// offer; of equals the first by name.
func (c *classic) choose() string {
	votes := make(map[string]int)
	for _, mem := range c.members {
		for _, p := range mem.protocols {
			if c.offeredByAll(p.name) {
				votes[p.name]++
				break
			}
		}
	}
	best := ""
	for name, n := range votes { // order-free: the greatest of a total order
		if best == "" || n > votes[best] || n == votes[best] && name < best {
			best = name
		}
	}
	return best
}

// metadata returns what the member said under a protocol, nil if it doesn't
// offer it.
func (mem *member) metadata(name string) []byte {
	for _, p := range mem.protocols {
		if p.name == name {
			if p.metadata == nil {
				return []byte{}
			}
			return p.metadata
		}
	}
	return nil
}

// same reports whether a member offers exactly these protocols, in this order.
func (mem *member) same(protocols []protocol) bool {
	return slices.EqualFunc(mem.protocols, protocols, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// allJoined reports whether nobody is missing in the joining phase.
func (c *classic) allJoined() bool { return c.joining == len(c.members) && len(c.unused) == 0 }

// rebalanceTimeout is the longest of the members'.
func (c *classic) rebalanceTimeout() model.Instant {
	longest := model.Instant(0)
	for _, mem := range c.members {
		longest = max(longest, mem.rebalanceTimeout)
	}
	return longest
}

// learnSubscriptions works out which topics the members read.
func (c *classic) learnSubscriptions() {
	c.subscribed, c.known = nil, false
	if !c.typed || c.protocolType != consumerType || !c.chosen && len(c.members) > 0 {
		return
	}
	topics := make(map[string]bool)
	for _, mem := range c.members {
		names, ok := subscription(mem.metadata(c.protocol))
		if !ok {
			return
		}
		for _, name := range names {
			topics[name] = true
		}
	}
	c.subscribed, c.known = topics, true
}

// reads reports whether some member may be subscribed to the topic.
func (c *classic) reads(topic string) bool {
	if c.known {
		return c.subscribed[topic]
	}
	return c.typed && c.protocolType == consumerType
}
