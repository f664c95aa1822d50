package group

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/consumer"
	"github.com/tidemark/tidemark/internal/assert"
	"github.com/tidemark/tidemark/internal/model"
)

// Machine holds the groups of one partition of __consumer_offsets. It implements
// coordinator.Machine.
type Machine struct {
	cfg   *Config
	rand  *rand.Rand
	stats Stats

	groups  map[string]*group
	timers  timers
	pending []pendingOffset // in the log and not committed, in order
	ids     int             // member ids given away and not yet used
	cleanAt model.Instant
	serving bool // the log has been replayed
	// cleaning is the names of the groups that this round of cleaning has still
	// to look at.
	cleaning []string
	// topics holds each topic's name once, however many groups read it.
	topics map[string]string
}

// Stats counts what happens in a machine.
type Stats struct {
	// Groups is how many there are in each State, but for Dead ones, and Offsets
	// how many are committed. They go up and down.
	Groups  [Dead]int64
	Offsets int64
	// Rebalances began, Generations were completed, and Evicted members were not
	// heard of in time.
	Rebalances, Generations, Evicted int64
	// Commits and Expired are of offsets, Unreadable of records.
	Commits, Expired, Unreadable int64
}

// Stats returns the counts.
func (m *Machine) Stats() Stats { return m.stats }

// group is one entry of the registry.
type group struct {
	id      string
	classic *classic
	// consumer is nil unless the coordinator assigns; classic is empty then.
	consumer *consumer.Group
	clocks   map[string]*clock // of consumer's members
	// reverting is the classic group that takes consumer's place once its record is
	// in the log.
	reverting *classic
	offsets   map[string]map[int32]committed // by topic, then partition
	waiting   int                            // entries of Machine.pending
}

// New returns a machine without groups.
func New(cfg *Config, r *rand.Rand) *Machine {
	return &Machine{
		cfg: cfg, rand: r, cleanAt: model.Never,
		groups: make(map[string]*group), topics: make(map[string]string),
	}
}

// The requests that are not kmsg's. Those that are: *kmsg.JoinGroupRequest,
// SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest, OffsetCommitRequest and
// OffsetDeleteRequest, answered with their responses.
type (
	// FetchOffsets is one group's part of an OffsetFetch; the answer is a
	// *kmsg.OffsetFetchResponseGroup.
	FetchOffsets struct {
		// Member and Epoch are who asks, "" and -1 if it is no member (KIP-848).
		Member string
		Epoch  int32
		// Topics is what is asked for; nil with All.
		Topics []kmsg.OffsetFetchRequestGroupTopic
		// All asks for every offset of the group.
		All bool
		// Stable waits for commits that are under way (KIP-447).
		Stable bool
	}
	// List asks for all groups; the answer is a []kmsg.ListGroupsResponseGroup.
	List struct {
		// States and Types keep those named, whatever the case; empty keeps all.
		States, Types []string
	}
	// DescribeConsumer asks for one group whose coordinator assigns; the answer is
	// a *kmsg.ConsumerGroupDescribeResponseGroup.
	DescribeConsumer struct{}
	// Describe asks for one group; the answer is a
	// *kmsg.DescribeGroupsResponseGroup.
	Describe struct{}
	// Delete removes one group; there is no answer but the code.
	Delete struct{}
	// DropTopics removes the offsets of topics that are gone, but for those that were
	// committed since: a topic may have been made anew under its name.
	DropTopics struct {
		Topics []string
		Since  model.Timestamp
	}
)

// Handle implements coordinator.Machine.
func (m *Machine) Handle(now model.Now, c *coordinator.Call, out *coordinator.Out) {
	switch req := c.Request.(type) {
	case *kmsg.JoinGroupRequest:
		m.join(now, c, req, out)
	case *kmsg.SyncGroupRequest:
		m.sync(now, c, req, out)
	case *kmsg.HeartbeatRequest:
		m.heartbeat(now, c, req, out)
	case *kmsg.LeaveGroupRequest:
		m.leave(now, c, req, out)
	case *kmsg.OffsetCommitRequest:
		m.commit(now, c, req, out)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		m.consumerHeartbeat(now, c, req, out)
	case *DescribeConsumer:
		m.describeConsumer(c, out)
	case *FetchOffsets:
		m.fetch(c, req, out)
	case *kmsg.OffsetDeleteRequest:
		m.deleteOffsets(c, req, out)
	case *List:
		m.list(c, req, out)
	case *Describe:
		m.describe(c, out)
	case *Delete:
		m.delete(c, out)
	case *DropTopics:
		m.dropTopics(c, req, out)
	default:
		assert.Unreachable("a request of type %T", req)
	}
}

// Begin implements coordinator.Machine.
func (m *Machine) Begin(now model.Now, out *coordinator.Out) {
	m.serving = true
	m.cleanAt = now.Mono + m.cfg.CheckEvery
	for _, name := range m.names() {
		g := m.groups[name]
		for _, mem := range g.classic.members {
			m.armSession(mem, now, mem.sessionTimeout)
		}
		m.armPeers(now, g)
		if n := len(g.classic.members); n > m.cfg.SizeMax || n > 0 && g.classic.unassigned {
			// Some must go, the bound has become smaller; or nobody has assigned yet
			// what consumers of the other protocol left to them.
			m.prepareRebalance(now, g, out)
		}
		m.maybeForget(g)
	}
}

// NextDeadline implements coordinator.Machine.
func (m *Machine) NextDeadline() model.Instant { return min(m.timers.next(), m.cleanAt) }

// Tick implements coordinator.Machine.
func (m *Machine) Tick(now model.Now, out *coordinator.Out) {
	if now.Mono-m.NextDeadline() > lateMax {
		m.renewSessions(now)
	}
	for t := m.timers.pop(now.Mono); t != nil; t = m.timers.pop(now.Mono) {
		switch t.kind {
		case timerSession:
			m.sessionOver(now, t, out)
		case timerPending:
			m.pendingOver(now, t, out)
		case timerJoin:
			m.joinOver(now, t.group, out)
		case timerSync:
			m.syncOver(now, t.group, out)
		case timerPeer, timerRevoke, timerRejoin, timerResync:
			m.peerOver(now, t, out)
		}
		if out.Writes() {
			return // the next one is decided on what this has changed
		}
	}
	if m.cleanAt <= now.Mono {
		m.clean(now, out)
	}
}

// renewSessions begins every session anew: this process was stopped, and
// heartbeats may be waiting to be read.
func (m *Machine) renewSessions(now model.Now) {
	for _, g := range m.groups { // order-free: each is given its own time
		for _, mem := range g.classic.members {
			mem.deadline = max(mem.deadline, now.Mono+mem.sessionTimeout)
		}
		for id, k := range g.clocks { // order-free: each is given its own time
			if mem := g.consumer.Member(id); mem != nil {
				k.deadline = max(k.deadline, now.Mono+m.peerSession(g, mem))
			}
		}
	}
}

// Close implements coordinator.Machine.
func (m *Machine) Close(code Code, out *coordinator.Out) {
	for _, name := range m.names() {
		for _, mem := range m.groups[name].classic.members {
			if mem.joining != nil {
				out.Fail(mem.joining, code)
			}
			if mem.syncing != nil {
				out.Fail(mem.syncing, code)
			}
		}
	}
}

// Written implements coordinator.Machine.
func (m *Machine) Written(now model.Now, w *coordinator.Write, code Code, out *coordinator.Out) {
	switch t := w.Token.(type) {
	case *committing:
		m.committed(w, t, code, out)
	case *assigning:
		m.assigned(now, t, code, out)
	case *replacing:
		m.replaced(now, w, t, code, out)
	case *answering:
		if code != codeNone {
			out.Fail(w.Call, coordinator.ClientCode(code))
		} else {
			out.Answer(w.Call, t.response)
		}
	case *beating:
		m.beaten(now, w, t, code, out)
	case *guesting:
		m.guestWritten(now, w, t, code, out)
	case *guestSyncing:
		m.guestSynced(now, w, t, code, out)
	case *fetching:
		if code != codeNone {
			out.Fail(w.Call, coordinator.ClientCode(code))
		} else {
			m.answerFetch(w.Call, t.req, out)
		}
	}
}

// answering is a write after which a call gets the answer made before.
type answering struct{ response any }

// names returns every group's name, sorted.
func (m *Machine) names() []string { return slices.Sorted(maps.Keys(m.groups)) } // order-free: sorted

// get returns the group, making an empty one if there is none.
func (m *Machine) get(id string) *group {
	g := m.groups[id]
	if g == nil {
		g = &group{id: id}
		g.classic = newClassic(g)
		m.groups[id] = g
		m.stats.Groups[Empty]++
	}
	return g
}

// maybeForget drops a group of which nothing is left.
func (m *Machine) maybeForget(g *group) {
	c := g.classic
	if g.consumer == nil && c.state == Empty && c.generation == 0 && !c.typed && len(c.unused) == 0 && len(g.offsets) == 0 && g.waiting == 0 {
		if m.groups[g.id] == g {
			delete(m.groups, g.id)
			m.stats.Groups[Empty]--
		}
	}
}
