package sim

import (
	"slices"
	"strconv"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
)

// meta is what the checkers know of the cluster's metadata: the newest image
// that any node has applied, and the sum of every one before.
type meta struct {
	world  *World
	img    *metadata.Image // nil: none yet
	era    int             // that of the world when an image was looked at last
	sums   map[model.Offset]metadata.Hash
	terms  map[model.LeaderEpoch]model.BrokerID // who led the quorum in a term
	gapped bool                                 // the newest step left images out
}

// image returns the newest metadata, nil if there is none.
func (w *World) image() *metadata.Image { return w.meta.img }

// applied is told of each image that a node takes over, in its order. It counts
// once the event is over in which it came, unless the process dies in it.
func (n *node) applied(img *metadata.Image, _ *metadata.Delta) {
	if n.m.faults.dying == deathNone && n.m.node == n {
		n.images = append(n.images, img)
		n.claims(img)
	}
}

// takeImages looks at the images that the node took over meanwhile.
func (n *node) takeImages() {
	images := n.images
	n.images = nil
	for _, img := range images {
		n.world.meta.see(n, img)
		n.noteFenced(img)
		for _, r := range n.m.replicas {
			if img.At().Offset > n.m.imageAt { // else a process that starts hears again what was
				r.hears(img, n.followed)
			}
		}
	}
}

// hears is told what a replica's broker hears of it; newest: nobody knows more.
// What is out of the assignment goes, and does not come back with it; one whose
// broker missed that stays.
func (r *replica) hears(img *metadata.Image, newest bool) {
	reg := img.PartitionByID(r.part.id)
	if reg == nil || !reg.HasReplica(r.m.id) {
		r.left = true
		return
	}
	r.removed = r.removed && (r.left || !newest)
	r.told(min(minISR(img, r.tp.Topic), len(reg.Replicas)))
}

// see takes over an image of a node.
func (t *meta) see(n *node, img *metadata.Image) {
	w, at := t.world, img.At().Offset
	if at < 0 {
		return
	}
	if t.sums == nil {
		t.sums = make(map[model.Offset]metadata.Hash)
	}
	if sum, known := t.sums[at]; known && sum != img.Hash() {
		w.fail(12, "metadata at %v on broker %d is not what another had there", img.At(), n.m.id)
	}
	t.sums[at], t.era = img.Hash(), w.era
	switch {
	case t.img == nil:
		t.img = img
	case at > t.img.At().Offset:
		old := t.img
		// An entry may hold many records and an image is published for each entry,
		// so offsets say nothing about what was left out; a node that starts does.
		t.gapped = !n.followed
		t.img = img
		t.step(old, img)
	}
	n.followed = t.img.At().Offset == at
}

// step checks what changed from one image to the next.
func (t *meta) step(old, img *metadata.Image) {
	w := t.world
	for topic := range img.Topics() {
		before := old.TopicByID(topic.ID)
		cleared := before != nil && minISR(old, topic.Name) != minISR(img, topic.Name)
		for i, reg := range topic.Partitions {
			id := model.TopicIDPartition{TopicID: topic.ID, Partition: int32(i)}
			var was *metadata.PartitionRegistration
			if before != nil {
				was = before.Partition(int32(i))
			}
			if b := wrongInELR(was, reg, cleared); b != model.NoLeader && !t.gapped {
				w.fail(9, "%s-%d: broker %d in ELR %v at %v, before that ISR %v and ELR %v; min.insync.replicas changed: %v", topic.Name, i, b, reg.ELR, img.At(), was.ISR, was.ELR, cleared)
			}
			if was == reg || was != nil && was.PartitionEpoch == reg.PartitionEpoch && was.LeaderEpoch == reg.LeaderEpoch &&
				was.Leader == reg.Leader && slices.Equal(was.ISR, reg.ISR) && slices.Equal(was.ELR, reg.ELR) {
				continue // one read from a disk may be another object
			}
			p := w.h.part(id, model.TopicPartition{Topic: topic.Name, Partition: int32(i)})
			t.partition(p, was, reg, old, img)
			w.react(p, was, reg)
			w.trace.line("meta       %-12s %v leader=%d e%d p%d isr=%v elr=%v known=%v replicas=%v adding=%v removing=%v", p.tp, img.At(),
				reg.Leader, reg.LeaderEpoch, reg.PartitionEpoch, reg.ISR, reg.ELR, reg.LastKnown, reg.Replicas, reg.Adding, reg.Removing)
		}
	}
	for _, b := range img.Brokers() {
		was := old.Broker(b.ID)
		if was == b || was != nil && was.Epoch == b.Epoch && was.Fenced == b.Fenced && was.InShutdown == b.InShutdown {
			continue
		}
		w.trace.line("meta       broker %d epoch %d fenced=%v stopping=%v at %v", b.ID, b.Epoch, b.Fenced, b.InShutdown, img.At())
		if was != nil && b.Epoch < was.Epoch {
			w.fail(6, "broker %d has epoch %d after %d", b.ID, b.Epoch, was.Epoch)
		}
		if was == nil || was.Epoch != b.Epoch {
			t.registered(b.ID)
		}
	}
	for _, p := range w.h.order {
		if !p.gone && img.TopicByID(p.id.TopicID) == nil && old.TopicByID(p.id.TopicID) != nil {
			p.gone = true
		}
	}
}

// wrongInELR returns a member of the ELR that may not be there, NoLeader if there
// is none. Whoever joins comes from the ISR: it has all that was committed. A
// change of min.insync.replicas clears the ELR. Several commands may share an
// entry; what more than one of them did to a partition is not known in between.
func wrongInELR(was, reg *metadata.PartitionRegistration, cleared bool) model.BrokerID {
	if was == nil || reg.PartitionEpoch > was.PartitionEpoch+1 {
		return model.NoLeader
	}
	for _, b := range reg.ELR {
		if !was.InISR(b) && (cleared || !was.InELR(b)) {
			return b
		}
	}
	return model.NoLeader
}

// partition checks one step of a partition.
func (t *meta) partition(p *part, was, reg *metadata.PartitionRegistration, old, img *metadata.Image) {
	w := t.world
	for _, b := range reg.ISR {
		if !slices.Contains(reg.Replicas, b) {
			w.fail(6, "%v: ISR %v, assigned are %v", p.tp, reg.ISR, reg.Replicas)
		}
	}
	if reg.Leader != model.NoLeader && !slices.Contains(reg.ISR, reg.Leader) {
		w.fail(6, "%v: leader %d, ISR %v", p.tp, reg.Leader, reg.ISR)
	}
	if was == nil {
		return
	}
	switch {
	case reg.PartitionEpoch <= was.PartitionEpoch:
		w.fail(6, "%v: partition epoch %d after %d", p.tp, reg.PartitionEpoch, was.PartitionEpoch)
	case reg.LeaderEpoch < was.LeaderEpoch, reg.LeaderEpoch == was.LeaderEpoch && reg.Leader != was.Leader:
		w.fail(6, "%v: leader %d of epoch %d after leader %d of epoch %d", p.tp, reg.Leader, reg.LeaderEpoch, was.Leader, was.LeaderEpoch)
	}
	t.election(p, was, reg, old, img)
	if reg.Leader == was.Leader && reg.PartitionEpoch == was.PartitionEpoch+1 && !t.gapped {
		for _, b := range reg.ISR {
			if r := w.replicaOf(p, b); r != nil && !was.InISR(b) && b != reg.Leader {
				r.joins(w.replicaOf(p, reg.Leader))
			}
		}
	}
	for _, b := range was.Replicas {
		if r := w.replicaOf(p, b); r != nil && !reg.HasReplica(b) {
			r.removed = true
		}
	}
	// A seat that is taken anew, through the leader, is clean, unless the leader
	// asked before power was lost.
	for _, b := range reg.ISR {
		if r := w.replicaOf(p, b); r != nil && !was.InISR(b) && reg.Leader != b && !r.dark && sameLife(old, img, b) {
			r.tainted = false
			r.settle()
		}
	}
}

// minISR is a topic's min.insync.replicas in an image.
func minISR(img *metadata.Image, topic string) int {
	n, err := strconv.Atoi(img.Config(metadata.TopicResource, topic)["min.insync.replicas"])
	if err != nil {
		return 1
	}
	return n
}

// sameLife reports whether a broker did not register between two images.
func sameLife(old, img *metadata.Image, b model.BrokerID) bool {
	x, y := old.Broker(b), img.Broker(b)
	return x != nil && y != nil && x.Epoch == y.Epoch
}

func (w *World) replicaOf(p *part, b model.BrokerID) *replica {
	if m := w.machine(b); m != nil {
		return m.find(p)
	}
	return nil
}

// election judges a new reign: a clean one keeps all, another must have been
// without a choice.
func (t *meta) election(p *part, was, reg *metadata.PartitionRegistration, old, img *metadata.Image) {
	w := t.world
	if reg.LeaderEpoch != was.LeaderEpoch {
		p.ackedAt[int32(reg.LeaderEpoch)] = p.acked
		w.era++
	}
	if reg.Leader == model.NoLeader && reg.LeaderEpoch > was.LeaderEpoch+1 && (p.mayLose(w, old) || p.mayLose(w, img)) {
		// In the same entry someone may have been elected who lacked records, and
		// have left again.
		p.uncleanEpoch, p.uncleanLeader, p.pending = int32(reg.LeaderEpoch), model.NoLeader, true
	}
	if reg.Leader == model.NoLeader || reg.LeaderEpoch == was.LeaderEpoch {
		return
	}
	entitled := append(slices.Clone(was.ISR), was.ELR...)
	r := w.replicaOf(p, reg.Leader)
	switch sound := w.anySound(p, was); {
	case slices.Contains(entitled, reg.Leader) && (r == nil || !r.tainted || r.dark):
		return // one that is dark has yet to say so, and can't lead before
	case r != nil && joined(was, reg, sound) && (!r.tainted && r.end >= p.acked || r.dark && r.had.end >= p.acked) && !r.removed && !r.contradicts():
		return // it came into the ISR in the same entry
	case !sound, t.gapped, p.mayLose(w, old), p.mayLose(w, img):
	default:
		w.fail(9, "%v: broker %d leads epoch %d; the ISR was %v, the ELR %v, and another of them had lost nothing", p.tp, reg.Leader, reg.LeaderEpoch, was.ISR, was.ELR)
	}
	p.uncleanEpoch, p.uncleanLeader, p.pending = int32(reg.LeaderEpoch), reg.Leader, true
	if r != nil && !r.dark {
		r.tainted = false
	}
	w.trace.line("unclean    %v: broker %d leads epoch %d; entitled were %v", p.tp, reg.Leader, reg.LeaderEpoch, entitled)
}

// joined reports whether the new leader can have come into the ISR before its
// reign, in a step that was not seen: there was a leader who could ask for that, and
// who has not lost its seat with its power, or the old members stay, or are not
// assigned any more. sound: some old member has lost nothing.
func joined(was, reg *metadata.PartitionRegistration, sound bool) bool {
	several := reg.PartitionEpoch > was.PartitionEpoch+1
	return several && sound && was.Leader != model.NoLeader || (several || was.Reassigning()) &&
		slices.ContainsFunc(was.ISR, func(b model.BrokerID) bool { return reg.InISR(b) || !reg.HasReplica(b) })
}

// mayLose reports whether someone chose that the partition may lose records: by
// the topic's setting in an image, or by asking for an unclean election not long
// ago.
func (p *part) mayLose(w *World, img *metadata.Image) bool {
	return img.Config(metadata.TopicResource, p.tp.Topic)["unclean.leader.election.enable"] == "true" ||
		p.sacrificed > 0 && w.sim.Now()-p.sacrificed < unsureFor
}

// contradicts reports whether a replica is known to hold something else than what
// was acknowledged.
func (r *replica) contradicts() bool {
	p := r.part
	for o := p.maxStart; o < min(p.acked, int64(len(p.recs)), int64(len(r.recs))); o++ {
		if p.recs[o].id != 0 && r.recs[o].id != 0 && p.recs[o].id != r.recs[o].id {
			return true
		}
	}
	return false
}

// anySound reports whether some member of ISR or ELR has lost nothing.
func (w *World) anySound(p *part, reg *metadata.PartitionRegistration) bool {
	for _, b := range reg.Replicas {
		if !reg.InISR(b) && !reg.InELR(b) {
			continue
		}
		if r := w.replicaOf(p, b); r != nil && !r.unsound() || r == nil && !w.machine(b).powerCut {
			return true
		}
	}
	return false
}

// registered is told that a broker has a new incarnation: a seat that it may not
// have is gone in the same step.
func (t *meta) registered(b model.BrokerID) {
	w := t.world
	m := w.machine(b)
	if life := m.lifeOf[t.img.Broker(b).Incarnation]; m.powerCut && life <= m.cutLife || life <= m.wipedLife {
		return // whose registration was under way when its power went, or its directory
	}
	m.powerCut = false
	for _, r := range m.replicas {
		reg := t.img.PartitionByID(r.part.id)
		if reg == nil {
			continue
		}
		seated := slices.Contains(reg.ISR, b) || slices.Contains(reg.ELR, b)
		if r.dark && seated && reg.Leader != b && !t.gapped && w.anySound(r.part, reg) {
			w.fail(9, "%v: broker %d has lost power and is registered again, ISR %v, ELR %v", r.tp, b, reg.ISR, reg.ELR)
		}
		// One that keeps its seat, for want of a better, stays what it is until it
		// is elected.
		r.dark, r.tainted = false, r.tainted && (seated || r.drop)
	}
}

// checkQuorum checks that a term has one leader.
func (n *node) checkQuorum() {
	w := n.world
	leader, term := n.broker.QuorumLeader()
	if leader != n.m.id {
		return
	}
	t := &w.meta
	if t.terms == nil {
		t.terms = make(map[model.LeaderEpoch]model.BrokerID)
	}
	other, known := t.terms[term]
	switch {
	case !known:
		w.trace.line("quorum     term %d is led by %d", term, n.m.id)
		t.terms[term] = n.m.id
	case other != n.m.id:
		w.fail(12, "brokers %d and %d both led the quorum in term %d", other, n.m.id, term)
	}
}

// checkSeats checks that what was acknowledged is where the metadata says that
// it is: on each live member of the ISR, and below the ends of the ELR.
func (w *World) checkSeats(p *part) {
	if w.meta.img == nil || p.gone || p.pending {
		return
	}
	reg := w.meta.img.PartitionByID(p.id)
	if reg == nil {
		return
	}
	for _, b := range reg.ISR {
		m := w.machine(b)
		r := m.find(p)
		if r == nil || r.tainted || m.node == nil || r.state == nil || r.state.View == nil || r.hurt || r.hit || r.drop {
			continue
		}
		if reg := w.meta.img.Broker(b); reg == nil || reg.Epoch != m.node.broker.Epoch() {
			continue // an earlier incarnation has the seat
		}
		if end := int64(r.state.LogEnd); end < p.acked {
			w.fail(4, "%v: broker %d of ISR %v ends at %d, everything below %d was acknowledged", p.tp, b, reg.ISR, end, p.acked)
		}
	}
	for _, b := range reg.ELR {
		if r := w.replicaOf(p, b); r != nil && !r.tainted && r.end < p.acked && !r.excused() {
			w.fail(9, "%v: broker %d of ELR %v ends at %d, everything below %d was acknowledged", p.tp, b, reg.ELR, r.end, p.acked)
		}
	}
}
