package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stories are short runs that each notice one planted bug; they hold in the code
// as it is. The names are those of the mutants.
func stories() map[string]func(t *testing.T) error {
	return map[string]func(t *testing.T) error{
		"ctl-elr-kept":            storyMinISRLowered,
		"ctl-sole-reelected":      storySoleMemberLosesPower,
		"ctl-power-keeps-seat":    storyFollowerLosesPower,
		"ctl-no-epoch-bump":       storyFastRegistration,
		"ctl-damaged-elected":     storyDamagedMember,
		"ctl-damage-keeps-epoch":  storyFailedReplica,
		"ctl-alter-no-cas":        storyStaleProposal,
		"ctl-isr-any-incarnation": storyLateJoin,
		"ctl-unclean-silently":    storyLastMemberAway,
	}
}

func TestStories(t *testing.T) {
	for name, story := range stories() {
		t.Run(name, func(t *testing.T) {
			if err := story(t); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// partition returns t-0.
func (w *world) partition() *metadata.PartitionRegistration { return w.c.Image().Partition("t", 0) }

// topic creates "t" with one partition on brokers 1 to rf and a minimum ISR.
func (w *world) topic(rf, minISR int) {
	w.t.Helper()
	req := createRequest("t", -1, -1)
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	for b := range rf {
		a.Replicas = append(a.Replicas, int32(b+1))
	}
	v := fmt.Sprint(minISR)
	req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, a)
	req.Topics[0].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: keyMinISR, Value: &v}}
	if resp := w.do(req).(*kmsg.CreateTopicsResponse); resp.Topics[0].ErrorCode != codeNone {
		w.t.Fatalf("create: %+v", resp)
	}
}

func (w *world) setMinISR(n int) {
	v := fmt.Sprint(n)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r, c := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	c.Name, c.Value = keyMinISR, &v
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	w.do(req)
}

// hint fences b, whose process goes on.
func (w *world) hint(b model.BrokerID) {
	w.commit(w.c.Handle(w.now, w.c.Image(), Command{Hints: []FenceHint{{Broker: b, Since: w.now.Mono}}}))
}

// again registers a new life of b.
func (w *world) again(b model.BrokerID, life int, facts RegistrationFacts) {
	w.commit(w.c.Handle(w.now, w.c.Image(), Command{Request: w.registerRequest(b, life, "", 1), Registration: &facts}))
}

func (w *world) beat(b model.BrokerID) { w.do(w.heartbeatRequest(b)) }

// propose returns the AlterPartition by which the leader of t-0 wants isr, as of
// now.
func (w *world) propose(isr ...model.BrokerID) *kmsg.AlterPartitionRequest {
	p := w.partition()
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, int32(p.Leader), w.heartbeatRequest(p.Leader).BrokerEpoch
	t, rp := kmsg.NewAlterPartitionRequestTopic(), kmsg.NewAlterPartitionRequestTopicPartition()
	t.TopicID, rp.LeaderEpoch, rp.PartitionEpoch = w.c.Image().Topic("t").ID, int32(p.LeaderEpoch), int32(p.PartitionEpoch)
	for _, b := range isr {
		m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		m.BrokerID, m.BrokerEpoch = int32(b), w.heartbeatRequest(b).BrokerEpoch
		rp.NewEpochISR = append(rp.NewEpochISR, m)
	}
	t.Partitions = append(t.Partitions, rp)
	req.Topics = append(req.Topics, t)
	return req
}

// send brings a proposal to the controller and returns its code.
func (w *world) send(req *kmsg.AlterPartitionRequest) int16 {
	resp := w.do(req).(*kmsg.AlterPartitionResponse)
	if resp.ErrorCode != codeNone {
		return resp.ErrorCode
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

// TestLowerMinimumInTheFile: another controller, started with a lower minimum in
// its own settings, voids the eligible leaders that are not needed any more.
func TestLowerMinimumInTheFile(t *testing.T) {
	w := newWorld(t, 1)
	w.join(1, 2)
	w.do(createRequest("t", 1, 2))
	minimum := func(n int) {
		w.c.Deactivate()
		w.c.config.Rules = fixedMinimum{w.c.config.Rules, n}
		w.c.Activate(w.now)
		for {
			r, more := w.c.Expire(w.now, w.c.Image())
			if !more {
				return
			}
			w.commit(r)
		}
	}
	minimum(2)
	w.hint(w.partition().Replicas[1])
	if p := w.partition(); len(p.ELR) != 1 {
		t.Fatal(p)
	}
	minimum(2)
	if p := w.partition(); len(p.ELR) != 1 {
		t.Fatal(p)
	}
	minimum(1)
	if p := w.partition(); len(p.ELR) != 0 {
		t.Fatal(p)
	}
}

// fixedMinimum are rules with a minimum ISR of their own.
type fixedMinimum struct {
	ConfigRules
	n int
}

func (f fixedMinimum) Topic(*metadata.Image, string) TopicSettings { return TopicSettings{MinISR: f.n} }

func wantState(p *metadata.PartitionRegistration, leader model.BrokerID, isr, elr []model.BrokerID) error {
	if p.Leader != leader || !slices.Equal(p.ISR, isr) || !slices.Equal(p.ELR, elr) {
		return fmt.Errorf("%s; want leader=%d isr=%v elr=%v", p, leader, isr, elr)
	}
	return nil
}

func ids(b ...model.BrokerID) []model.BrokerID { return append([]model.BrokerID{}, b...) }

// storyMinISRLowered: 2 is eligible because nothing is committed without it. With
// a minimum of one the leader commits alone.
func storyMinISRLowered(t *testing.T) error {
	w := newWorld(t, 1)
	w.join(1, 2)
	w.topic(2, 2)
	w.hint(2)
	if err := wantState(w.partition(), 1, ids(1), ids(2)); err != nil {
		return err
	}
	w.setMinISR(1)
	w.hint(1)
	w.beat(2)
	return wantState(w.partition(), model.NoLeader, nil, ids(1))
}

// storySoleMemberLosesPower: 1 was the only one in sync and lost power, 2 is
// eligible: it has all that was committed, 1 may not.
func storySoleMemberLosesPower(t *testing.T) error {
	w := newWorld(t, 1)
	w.join(1, 2)
	w.topic(2, 2)
	w.hint(2)
	w.again(1, 2, RegistrationFacts{Stop: metadata.StopPower})
	w.beat(1)
	if err := wantState(w.partition(), model.NoLeader, nil, ids(2)); err != nil {
		return err
	}
	w.beat(2)
	return wantState(w.partition(), 2, ids(2), nil)
}

// storyLastMemberAway: only 1 has everything. 2 does not lead without it, since
// nobody has chosen that records may be lost.
func storyLastMemberAway(t *testing.T) error {
	w := newWorld(t, 1)
	w.join(1, 2)
	w.topic(2, 1)
	w.hint(2)
	w.hint(1)
	w.again(2, 2, RegistrationFacts{Stop: metadata.StopProcess})
	w.beat(2)
	if p := w.partition(); p.Leader != model.NoLeader {
		return fmt.Errorf("with its last member away: %s", p)
	}
	return nil
}

// storyFollowerLosesPower: what 3 acknowledged may be gone.
func storyFollowerLosesPower(t *testing.T) error {
	w := newWorld(t, 1)
	w.join(1, 2, 3)
	w.topic(3, 2)
	w.again(3, 2, RegistrationFacts{Stop: metadata.StopPower})
	w.beat(3)
	return wantState(w.partition(), 1, ids(1, 2), nil)
}

// storyFastRegistration: 1 comes back before anybody noticed. What its old
// process still has in flight belongs to an older epoch.
func storyFastRegistration(t *testing.T) error {
	w := newWorld(t, 1)
	w.join(1)
	w.topic(1, 1)
	before := w.partition().LeaderEpoch
	w.again(1, 2, RegistrationFacts{Stop: metadata.StopProcess})
	if p := w.partition(); p.Leader != model.NoLeader || p.LeaderEpoch <= before {
		return fmt.Errorf("after the registration: %s, the old life led in epoch %d", p, before)
	}
	w.beat(1)
	return wantState(w.partition(), 1, ids(1), nil)
}

// storyDamagedMember: the sole member comes back without its log. It must not
// lead as an empty one: not even an election by hand prefers it to a replica
// that has something.
func storyDamagedMember(t *testing.T) error {
	w := newWorld(t, 1)
	w.join(1, 2)
	w.topic(2, 1)
	w.hint(2)
	tp := model.TopicIDPartition{TopicID: w.c.Image().Topic("t").ID}
	w.again(1, 2, RegistrationFacts{Stop: metadata.StopClean, Damaged: []model.TopicIDPartition{tp}})
	w.beat(1)
	w.beat(2)
	if err := wantState(w.partition(), model.NoLeader, nil, nil); err != nil {
		return err
	}
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType = 2, wantUnclean
	w.do(req)
	return wantState(w.partition(), 2, ids(2), nil)
}

// storyFailedReplica: 2 failed, was taken out, and may be filled anew while its
// broker runs. In the leader epoch that its old log has fetched in it is not taken in
// again, whether or not it was a member when it failed.
func storyFailedReplica(t *testing.T) error {
	w := newWorld(t, 1)
	w.join(1, 2)
	w.topic(2, 1)
	for _, member := range []bool{true, false} {
		heard := w.partition().LeaderEpoch
		tp := model.TopicIDPartition{TopicID: w.c.Image().Topic("t").ID}
		w.commit(w.c.Handle(w.now, w.c.Image(), Command{Damage: &DamageReport{
			Broker: 2, Epoch: model.BrokerEpoch(w.heartbeatRequest(2).BrokerEpoch), Replicas: []model.TopicIDPartition{tp},
		}}))
		late := w.propose(1, 2)
		late.Topics[0].Partitions[0].LeaderEpoch = int32(heard)
		if code := w.send(late); code != codeFencedLeaderEpoch {
			return fmt.Errorf("a member before: %v; the proposal of the old epoch: code %d, %s", member, code, w.partition())
		}
		if err := wantState(w.partition(), 1, ids(1), nil); err != nil {
			return err
		}
	}
	if code := w.send(w.propose(1, 2)); code != codeNone {
		return fmt.Errorf("the proposal of the new epoch: code %d", code)
	}
	return wantState(w.partition(), 1, ids(1, 2), nil)
}

// storyStaleProposal: the leader wanted 2 in; then the controller fenced it, and
// the leader committed alone. The old proposal comes late.
func storyStaleProposal(t *testing.T) error {
	w := newWorld(t, 1)
	w.join(1, 2)
	w.topic(2, 1)
	w.hint(2)
	w.beat(2)
	late := w.propose(1, 2)
	if code := w.send(w.propose(1, 2)); code != codeNone {
		return fmt.Errorf("the first proposal: code %d", code)
	}
	w.hint(2)
	w.beat(2)
	if code := w.send(late); code != codeInvalidUpdateVersion {
		return fmt.Errorf("the late proposal: code %d, %s", code, w.partition())
	}
	return wantState(w.partition(), 1, ids(1), nil)
}

// storyLateJoin: 2 caught up, lost power, and came back before the proposal that
// takes it in was carried out. Source: KIP-903.
func storyLateJoin(t *testing.T) error {
	w := newWorld(t, 1)
	w.join(1, 2)
	w.topic(2, 1)
	w.hint(2)
	w.beat(2)
	late := w.propose(1, 2)
	w.again(2, 2, RegistrationFacts{Stop: metadata.StopPower})
	w.beat(2)
	if code := w.send(late); code != codeIneligibleReplica {
		return fmt.Errorf("the late proposal: code %d, %s", code, w.partition())
	}
	return wantState(w.partition(), 1, ids(1), nil)
}
