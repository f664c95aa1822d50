package controller

import (
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/internal/mutant"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterPartition handles AlterPartition v2–3: leaders report which replicas are
// in sync. Each partition stands for itself; what is answered is the state that
// the records lead to. Source: KIP-497, KIP-704, KIP-841, KIP-903.
func (c *Controller) alterPartition(view *metadata.Image, req *kmsg.AlterPartitionRequest) Result {
	sender := model.BrokerID(req.BrokerID)
	if b := view.Broker(sender); b == nil || b.Epoch != model.BrokerEpoch(req.BrokerEpoch) {
		return Result{reply: ErrorReply(req, codeStaleBrokerEpoch, "")}
	}
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	s := c.settings(view)
	var recs []metadata.Record
	changed := map[model.TopicIDPartition]bool{}
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewAlterPartitionResponseTopic()
		out.Topic, out.TopidID = in.Topic, in.TopicID
		t := view.TopicByID(in.TopicID)
		for k := range in.Partitions {
			a := isrWish{in: &in.Partitions[k], version: req.Version, sender: sender}
			tp := model.TopicIDPartition{TopicID: in.TopicID, Partition: a.in.Partition}
			answer, r := c.alterISR(s, t, &a, changed[tp])
			if r != nil {
				recs, changed[tp] = append(recs, r), true
			}
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Result{reply: resp, Units: chunked(recs)}
}

// isrWish is what a leader wants of one partition.
type isrWish struct {
	in      *kmsg.AlterPartitionRequestTopicPartition
	version int16
	sender  model.BrokerID
}

// members returns the ISR that is wished for, with the incarnation of each
// member as far as the leader knows it.
func (a *isrWish) members() (ids []model.BrokerID, epochs []model.BrokerEpoch) {
	ids = []model.BrokerID{}
	if a.version < 3 {
		for _, b := range a.in.NewISR {
			ids, epochs = append(ids, model.BrokerID(b)), append(epochs, model.NoBrokerEpoch)
		}
		return ids, epochs
	}
	for _, m := range a.in.NewEpochISR {
		ids, epochs = append(ids, model.BrokerID(m.BrokerID)), append(epochs, model.BrokerEpoch(m.BrokerEpoch))
	}
	return ids, epochs
}

// alterISR decides about one partition. twice: an earlier wish of the request
// for it was granted, so its epoch is not what the leader thinks.
func (c *Controller) alterISR(s *settings, t *metadata.Topic, a *isrWish, twice bool) (kmsg.AlterPartitionResponseTopicPartition, *metadata.PartitionChange) {
	out := kmsg.NewAlterPartitionResponseTopicPartition()
	out.Partition = a.in.Partition
	if t == nil {
		out.ErrorCode = codeUnknownTopicID
		return out, nil
	}
	p := t.Partition(a.in.Partition)
	if p == nil {
		out.ErrorCode = codeUnknownTopicOrPartition
		return out, nil
	}
	isr, epochs := a.members()
	out.ErrorCode = checkWish(s.view, p, a, isr, epochs)
	if out.ErrorCode == codeNone && twice {
		out.ErrorCode = codeInvalidUpdateVersion
	}
	if out.ErrorCode != codeNone {
		return out, nil
	}
	ch := c.change(s, t, a.in.Partition)
	ch.isr, ch.recovery, ch.confirmed = isr, metadata.RecoveryState(a.in.LeaderRecoveryState), true
	r := ch.build()
	if r != nil {
		p = p.After(r)
		if r.Leader != metadata.NoLeaderChange && r.Leader != a.sender {
			// This completes a reassignment that takes the sender out: both an error
			// and a change.
			out.ErrorCode = codeNewLeaderElected
			return out, r
		}
	}
	out.LeaderID, out.LeaderEpoch, out.PartitionEpoch = int32(p.Leader), int32(p.LeaderEpoch), int32(p.PartitionEpoch)
	out.ISR, out.LeaderRecoveryState = brokerInts(p.ISR), int8(p.Recovery)
	return out, r
}

// checkWish returns the code for a wish, in the order that Kafka checks.
func checkWish(view *metadata.Image, p *metadata.PartitionRegistration, a *isrWish, isr []model.BrokerID, epochs []model.BrokerEpoch) int16 {
	leaderEpoch, partitionEpoch := model.LeaderEpoch(a.in.LeaderEpoch), model.PartitionEpoch(a.in.PartitionEpoch)
	recovery := metadata.RecoveryState(a.in.LeaderRecoveryState)
	switch {
	case leaderEpoch > p.LeaderEpoch, partitionEpoch > p.PartitionEpoch:
		return codeNotController // the sender has seen more than this node
	case leaderEpoch < p.LeaderEpoch:
		return codeFencedLeaderEpoch
	case a.sender != p.Leader:
		return codeInvalidRequest
	case partitionEpoch < p.PartitionEpoch && !mutant.On("ctl-alter-no-cas"):
		return codeInvalidUpdateVersion
	case !validISR(p, isr), !slices.Contains(isr, p.Leader):
		return codeInvalidRequest
	case recovery != metadata.Recovered && recovery != metadata.Recovering:
		return codeInvalidRequest
	case recovery == metadata.Recovering && len(isr) > 1:
		return codeInvalidRequest
	case recovery == metadata.Recovering && p.Recovery == metadata.Recovered:
		return codeInvalidRequest
	}
	for i, id := range isr {
		b := view.Broker(id)
		if !b.Active() {
			return ineligible(a.version)
		}
		if epochs[i] != model.NoBrokerEpoch && epochs[i] != b.Epoch && !mutant.On("ctl-isr-any-incarnation") {
			return ineligible(a.version)
		}
	}
	return codeNone
}

// validISR reports whether isr is a set of replicas, not empty.
func validISR(p *metadata.PartitionRegistration, isr []model.BrokerID) bool {
	for i, b := range isr {
		if !p.HasReplica(b) || slices.Contains(isr[:i], b) {
			return false
		}
	}
	return len(isr) > 0
}

// ineligible is the code for a member that may not be in an ISR now.
func ineligible(version int16) int16 {
	if version < 2 {
		return codeOperationNotAttempted
	}
	return codeIneligibleReplica
}

// brokerInts returns ids as the protocol carries them; never nil.
func brokerInts(ids []model.BrokerID) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}
