package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/loop"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"go.uber.org/zap"
)

const (
	// askAgain is how long a virgin voter waits between two rounds of questions.
	askAgain = model.Instant(200 * time.Millisecond)
	// quietRounds are waited for without a word to the operator.
	quietRounds = 15
	// askMax is when a question counts as lost. The carrier answers each, so this
	// is a second line.
	askMax = model.Instant(10 * time.Second)
)

// birth is the time of a virgin voter of a static list: it asks every other one
// what stands on its disk. Only when all are virgin do they bootstrap, each by
// itself and each with the same bytes; if one is a member, its cluster is the
// cluster.
type birth struct {
	own     *identity
	answers map[model.BrokerID]*probeAnswer
	asked   map[model.BrokerID]model.Instant // waiting for an answer since
	askAt   model.Instant
	rounds  int
	// warned is the last obstacle that was logged.
	warned string
}

func newBirth(own *identity) *birth {
	return &birth{own: own, answers: map[model.BrokerID]*probeAnswer{}, asked: map[model.BrokerID]model.Instant{}, askAt: model.Never}
}

// askVoters asks everybody who has not answered or may have moved on since.
func (n *Node) askVoters(now model.Now) {
	b, q := n.birth, &probeRequest{Node: n.config.NodeID, Directory: n.id, Listed: n.config.listed()}
	b.askAt = now.Mono + askAgain
	if b.rounds++; b.rounds > quietRounds {
		n.missing()
	}
	for _, v := range n.config.Voters {
		since, waits := b.asked[v.Node]
		if v.Node == n.config.NodeID || waits && now.Mono-since < askMax {
			continue
		}
		b.asked[v.Node] = now.Mono
		node := v.Node
		n.config.Ask(v, KeyProbe, q.encode(), func(body []byte, err error) {
			n.box.Post(message{kind: kindProbed, answer: answer{from: node, body: body, err: err}})
		})
	}
	n.tickAt = b.askAt
}

// probed takes an answer.
func (n *Node) probed(now model.Now, a answer, out *loop.Outbox) {
	if n.phase == phaseMember {
		n.soughtMembership(now, a, out)
	}
	if n.phase != phaseBirth {
		return
	}
	delete(n.birth.asked, a.from)
	// An older answer of the same node is not kept beside a failure: it may have
	// been replaced by another node meanwhile.
	delete(n.birth.answers, a.from)
	if a.err != nil {
		return
	}
	p, err := decodeProbeAnswer(a.body)
	if err != nil || p.Node != a.from {
		n.obstacle(fmt.Sprintf("node %d answers as node %d: %v", a.from, p.Node, err))
		return
	}
	if p.Standing == standingUnknown {
		return // it is on its way, and will say later
	}
	n.birth.answers[a.from] = p
	if p.Standing == standingMember {
		n.adopt(now, p, out)
		return
	}
	if n.fetching != nil {
		return // there is a cluster, and this node is on its way into it
	}
	if why := n.cannotBootstrap(); why != "" {
		n.obstacle(why)
		return
	}
	heard, all := len(n.birth.answers)+1, len(n.config.Voters)
	if heard < all && !(mutant.On("ctl-bootstrap-majority") && heard > all/2) {
		return
	}
	if err := n.bootstrapTogether(now, out); err != nil {
		n.cannotStart(err, out)
	}
}

// obstacle logs what is in the way of a bootstrap, once for each.
func (n *Node) obstacle(why string) {
	if why != n.birth.warned {
		n.birth.warned = why
		n.logger.Warn("the quorum can't be bootstrapped yet", zap.String("why", why))
	}
}

// missing logs whose answer is waited for.
func (n *Node) missing() {
	var who []model.BrokerID
	for _, node := range n.config.listed() {
		if node != n.config.NodeID && n.birth.answers[node] == nil {
			who = append(who, node)
		}
	}
	if len(who) > 0 {
		n.obstacle(fmt.Sprintf("no answer from the listed voters %v", who))
	}
}

// cannotBootstrap says what in the answers speaks against it, or "".
func (n *Node) cannotBootstrap() string {
	listed, given := n.config.listed(), n.configuredCluster()
	ids := map[uint64]model.BrokerID{n.raftID(): n.config.NodeID}
	for _, node := range listed {
		a := n.birth.answers[node]
		if a == nil {
			continue
		}
		id := metadata.RaftID(node, a.Identity.Directory)
		switch other, taken := ids[id]; {
		case a.Standing != standingVirgin:
			return fmt.Sprintf("voter %d is in use but no member of a quorum", node)
		case !slices.Equal(a.Listed, listed):
			return fmt.Sprintf("voter %d lists %v, this node %v", node, a.Listed, listed)
		case a.Identity.Configured && given != "" && a.Identity.ClusterID != given:
			return fmt.Sprintf("voter %d is of cluster %q, this node of %q", node, a.Identity.ClusterID, given)
		case taken:
			return fmt.Sprintf("voters %d and %d have the same id in the consensus library", node, other)
		}
		ids[id] = node
	}
	return ""
}

// configuredCluster returns the cluster id that somebody has configured.
func (n *Node) configuredCluster() string {
	if n.birth.own.Configured {
		return n.birth.own.ClusterID
	}
	for _, node := range n.config.listed() {
		if a := n.birth.answers[node]; a != nil && a.Identity.Configured {
			return a.Identity.ClusterID
		}
	}
	return ""
}

// bootstrapTogether writes the first snapshot. What it holds depends on the
// identities only, which are durable on every voter, so that all write the same:
// the lowest node's are the features, and the cluster id if none is configured.
func (n *Node) bootstrapTogether(now model.Now, out *loop.Outbox) error {
	var lowest *identity
	set := &metadata.Voters{}
	for _, node := range n.config.listed() {
		id := n.birth.own
		if node != n.config.NodeID {
			a := n.birth.answers[node]
			if a == nil {
				continue
			}
			id = &a.Identity
		}
		if lowest == nil {
			lowest = id
		}
		set.Voters = append(set.Voters, metadata.Voter{Node: node, Directory: id.Directory, Listeners: id.Listeners})
	}
	cluster := n.configuredCluster()
	if cluster == "" {
		cluster = lowest.ClusterID
	}
	recs := []metadata.Record{&metadata.Cluster{ID: cluster}, set}
	for _, f := range lowest.Features {
		recs = append(recs, &metadata.FeatureLevel{Feature: f})
	}
	m, _, err := metadata.Apply(metadata.Empty(), bootstrapAt, recs)
	if err != nil {
		return err
	}
	if err := writeFirst(n.config, n.dir, model.Now{Mono: now.Mono, Wall: lowest.Time}, m); err != nil {
		return err
	}
	n.logger.Info("quorum bootstrapped", zap.String("cluster", cluster), zap.Int("voters", len(set.Voters)), zap.Stringer("set", m.VoterSetHash()))
	return n.enter(now, out)
}

// adopt takes over the cluster of a member: as a member too if this node is in
// its set, which was written while this node was down; else without a vote.
func (n *Node) adopt(now model.Now, p *probeAnswer, out *loop.Outbox) {
	var err error
	if given := n.configuredCluster(); n.birth.own.Configured && p.Identity.ClusterID != given {
		err = fmt.Errorf("cluster id %q, voter %d is of %q: %w", given, p.Node, p.Identity.ClusterID, ErrOtherCluster)
	} else if member(p.Voters, n.raftID()) == nil {
		n.logger.Warn("this node is not among the voters of the cluster; it follows without a vote",
			zap.Stringer("directory_id", n.id), zap.Any("voters", p.Voters))
		n.phase, n.birth = phaseObserving, nil
		err = n.beginObserving(now, out)
	} else if n.fetching == nil {
		n.fetching = newDownload(*n.addressOfNode(p.Node, p.Voters))
		n.download(now)
	}
	if err != nil {
		n.cannotStart(err, out)
	}
}

// joined takes the snapshot of the cluster that this virgin voter belongs to.
func (n *Node) joined(now model.Now, d *download, out *loop.Outbox) {
	conf, err := confOf(d.header)
	if err == nil && !slices.Contains(conf.GetVoters(), n.raftID()) && !slices.Contains(conf.GetLearners(), n.raftID()) {
		return // the next round asks who is a member
	}
	if err == nil {
		err = writeState(n.config, n.dir, d.header, d.image)
	}
	if err == nil {
		err = n.enter(now, out)
	}
	if err != nil {
		n.cannotStart(err, out)
	}
}

// enter begins as a member on what was just written.
func (n *Node) enter(now model.Now, out *loop.Outbox) error {
	n.birth = nil
	store, l, err := load(n.config, n.dir, now)
	if err != nil {
		return err
	}
	n.store = store
	id, err := n.checkIdentity(l.image)
	if err != nil {
		return errors.Join(err, store.plog.Close(false))
	}
	n.setID(id)
	n.tickAt = model.Never
	return n.beginMember(now, l, out)
}

// cannotStart ends a start for good.
func (n *Node) cannotStart(err error, out *loop.Outbox) {
	n.fail(err, out)
	n.started(err, out)
}
