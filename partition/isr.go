package partition

import (
	"slices"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
)

// isrState says whether a change of the in-sync set is under way.
type isrState uint8

const (
	isrCommitted isrState = iota
	isrPendingExpand
	isrPendingShrink
)

// isr is the in-sync set as the leader knows it. The committed set is what the
// last registration said and counts for min.insync.replicas; the maximal set is
// what the high watermark waits for. While the controller is asked, the maximal
// set has both the old members and the new: whoever may be elected in either
// outcome must hold everything below the high watermark.
type isr struct {
	state     isrState
	committed []model.BrokerID
	maximal   []model.BrokerID
	// proposal is the request in flight or to be repeated; nil when there is none
	// or when it was answered and only the image is missing.
	proposal *AlterPartition
	token    uint64
}

func (s *isr) inCommitted(id model.BrokerID) bool { return slices.Contains(s.committed, id) }
func (s *isr) inMaximal(id model.BrokerID) bool   { return slices.Contains(s.maximal, id) }

// commit takes the set that the cluster agreed on. A proposal under way is
// forgotten: it carries an older partition epoch, so the controller has either
// carried it out, and this is the outcome, or will refuse it.
func (s *isr) commit(members []model.BrokerID) {
	s.state, s.proposal = isrCommitted, nil
	s.committed = slices.Clone(members)
	s.maximal = s.committed
}

// revert gives up the proposal.
func (s *isr) revert() {
	s.state, s.proposal = isrCommitted, nil
	s.maximal = s.committed
}

// maybeExpand proposes to add r. It needs everything below the high watermark
// and below the start of the present epoch; until then an elected r could lack
// records that were exposed. It also needs to have our log start: an elected r that
// begins lower would show what was deleted, though it was said to be gone. Kafka
// doesn't ask for that.
func (p *Partition) maybeExpand(r *replica, out *Output) {
	if p.isr.state != isrCommitted || p.isr.inMaximal(r.id) || !p.eligible(r) || r.logEnd < p.mark.HighWatermark {
		return
	}
	if r.logStart < p.mark.LogStart && !mutant.On("part-expand-below-log-start") {
		return
	}
	if r.logEnd < p.epochStart && !mutant.On("part-expand-before-epoch-start") {
		return
	}
	members := append(slices.Clone(p.isr.committed), r.id)
	p.isr.maximal = members
	p.propose(isrPendingExpand, members, out)
}

// maybeShrink proposes to drop the members that have fallen behind for longer
// than the lag allows.
func (p *Partition) maybeShrink(now model.Now, out *Output) {
	if p.isr.state != isrCommitted {
		return
	}
	var members []model.BrokerID
	for _, id := range p.isr.committed {
		r := p.replica(id)
		if r == nil || r.caughtUp(p.mark.LogEnd, now.Mono, p.cfg.ReplicaLagMax) {
			members = append(members, id)
		}
	}
	if len(members) < len(p.isr.committed) {
		p.propose(isrPendingShrink, members, out)
	}
}

func (p *Partition) propose(state isrState, members []model.BrokerID, out *Output) {
	p.isr.state = state
	p.isr.token++
	proposal := &AlterPartition{
		Token: p.isr.token, LeaderEpoch: p.mark.LeaderEpoch, PartitionEpoch: p.partitionEpoch,
	}
	for _, id := range members {
		m := Member{ID: id, Epoch: p.peer(id).Epoch}
		if r := p.replica(id); r != nil && r.brokerEpoch != model.NoBrokerEpoch {
			m.Epoch = r.brokerEpoch
		}
		if mutant.On("part-isr-no-broker-epoch") {
			m.Epoch = model.NoBrokerEpoch
		}
		proposal.ISR = append(proposal.ISR, m)
	}
	p.isr.proposal = proposal
	out.Alter = proposal
	out.Events = append(out.Events, Event{Kind: EventISRProposed, Mark: p.mark, ISR: members})
}

// alterAnswered takes the controller's answer. A yes changes nothing here: the
// new set counts only once an image has it, because only the image also says
// which incarnations are alive.
func (leader) alterAnswered(p *Partition, now model.Now, a AlterAnswer, out *Output) {
	if p.isr.proposal == nil || a.Token != p.isr.proposal.Token {
		return
	}
	if a.Retriable {
		p.repeatProposal(out)
		return
	}
	if a.Code == CodeNone {
		if mutant.On("part-alter-before-image") {
			var members []model.BrokerID
			for _, m := range p.isr.proposal.ISR {
				members = append(members, m.ID)
			}
			p.isr.commit(members)
			p.advance(now, out)
		}
		p.isr.proposal = nil
		return
	}
	out.Events = append(out.Events, Event{Kind: EventISRRefused, Mark: p.mark, Code: a.Code, ISR: p.isr.maximal})
	switch a.Code {
	case codeOperationNotAttempted, codeIneligibleReplica:
		p.isr.revert()
		p.advance(now, out)
	case CodeUnknownTopicOrPartition, codeUnknownTopicID, CodeFencedLeaderEpoch,
		codeInvalidUpdateVersion, codeInvalidRequest, codeNewLeaderElected:
		// The image that explains this is on its way; until it comes the pending
		// set holds.
		p.isr.proposal = nil
	default:
		p.repeatProposal(out)
	}
}

// repeatProposal sends the proposal once more, as it was: with the incarnations
// whose offsets were observed.
func (p *Partition) repeatProposal(out *Output) {
	if mutant.On("part-alter-rereads-epoch") {
		for i := range p.isr.proposal.ISR {
			m := &p.isr.proposal.ISR[i]
			m.Epoch = p.peer(m.ID).Epoch
		}
	}
	out.Alter = p.isr.proposal
}
