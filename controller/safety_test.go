package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestNothingCommittedIsLost runs random commands against a model of what the
// replicas hold: brokers die, lose power with part of what they had, come back
// under the same or a new incarnation, leaders propose ISRs that arrive late.
// Invariants 6 and 9 hold after every unit, and where at most one broker loses
// power before the others are whole again nothing that was committed is lost.
func TestNothingCommittedIsLost(t *testing.T) {
	for seed := range uint64(150) {
		if err := runSafety(t, seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// violation is what a broken rule panics with.
type violation struct{ what string }

// judge is a testing.TB that turns failures into violations.
type judge struct{ testing.TB }

func (j judge) Fatalf(format string, args ...any) { panic(violation{fmt.Sprintf(format, args...)}) }

// runSafety runs one seed and returns the first violation.
func runSafety(t testing.TB, seed uint64) (err error) {
	defer func() {
		r := recover()
		if v, ok := r.(violation); ok {
			err = errors.New(v.what)
		} else if r != nil {
			panic(r)
		}
	}()
	s := newSafety(judge{t}, seed)
	for range 400 {
		s.step()
	}
	s.settle()
	return nil
}

const safetyBrokers = 3

// safety is the model.
type safety struct {
	*world
	rng *rand.Rand
	// damaged: a replica was, or a broker was forgotten: some partition may have no
	// leader for good.
	damaged bool
	// careful: minimum ISR 2, no unclean elections by choice, and power is lost
	// only while every partition has two live members in sync.
	careful bool
	brokers [safetyBrokers + 1]modelBroker
	parts   map[model.TopicIDPartition]*modelPartition
	// late are proposals under way.
	late []*lateProposal
}

// modelBroker is a broker process.
type modelBroker struct {
	alive bool
	life  int
	stop  metadata.Stop // how the last life ended
	// unknown: it lost something and the controller has not been told yet.
	unknown bool
	// disk counts the disks it had.
	disk byte
}

// modelPartition is what is committed and held of one partition, in records.
type modelPartition struct {
	committed int
	has       [safetyBrokers + 1]int
	// wiped: it had something, lost it with its disk and has nothing since.
	wiped [safetyBrokers + 1]bool
}

// lateProposal is an AlterPartition that has not arrived.
type lateProposal struct {
	req     *kmsg.AlterPartitionRequest
	tp      model.TopicIDPartition
	at      model.PartitionEpoch
	members []model.BrokerID
}

func newSafety(t testing.TB, seed uint64) *safety {
	s := &safety{world: newWorld(t, seed), rng: rand.New(rand.NewPCG(seed, 77)), careful: seed%2 == 0,
		parts: map[model.TopicIDPartition]*modelPartition{}}
	for b := model.BrokerID(1); b <= safetyBrokers; b++ {
		s.brokers[b] = modelBroker{alive: true, life: 1}
		s.join(b)
	}
	s.topic(3, 2)
	s.do(createRequest("u", 1, 3))
	if !s.careful {
		s.do(createRequest("v", 2, 2))
	} else {
		s.setCluster(keyMinISR, "2")
	}
	for topic := range s.c.Image().Topics() {
		for n := range topic.Partitions {
			s.parts[model.TopicIDPartition{TopicID: topic.ID, Partition: int32(n)}] = &modelPartition{}
		}
	}
	return s
}

func (s *safety) setCluster(key, value string) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r, c := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	r.ResourceType, c.Name, c.Value = kmsg.ConfigResourceTypeBroker, key, &value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	s.handle(Command{Request: req})
}

// handle runs a command unit by unit.
func (s *safety) handle(cmd Command) kmsg.Response {
	s.c.Wake(s.now)
	return s.apply(s.c.Handle(s.now, s.c.Image(), cmd))
}

func (s *safety) apply(r Result) kmsg.Response {
	for _, u := range r.Units {
		old := s.c.Image()
		s.replay(u)
		s.invariants()
		s.epochsRise(old)
		s.follow(old)
	}
	return r.Reply(s.c.Image().At())
}

func (s *safety) broker() model.BrokerID { return model.BrokerID(1 + s.rng.IntN(safetyBrokers)) }

// anyPartition returns one at random.
func (s *safety) anyPartition() (*metadata.Topic, model.TopicIDPartition, *metadata.PartitionRegistration) {
	var all []*metadata.Topic
	for t := range s.c.Image().Topics() {
		all = append(all, t)
	}
	t := all[s.rng.IntN(len(all))]
	n := s.rng.IntN(len(t.Partitions))
	return t, model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)}, t.Partitions[n]
}

func (s *safety) step() {
	s.now.Mono += model.Instant(s.rng.IntN(300_000_000))
	for b := model.BrokerID(1); b <= safetyBrokers; b++ { // sessions don't end by themselves here
		if s.brokers[b].alive && s.rng.IntN(3) > 0 {
			s.handle(Command{Request: s.heartbeatRequest(b)})
		}
	}
	b := s.broker()
	switch s.rng.IntN(16) {
	case 0:
		if s.rng.IntN(4) == 0 { // another controller
			s.c.Deactivate()
			s.c.Activate(s.now)
		}
		hints := []FenceHint{{Broker: b, Since: model.Never}}
		if s.rng.IntN(3) == 0 {
			hints = append(hints, FenceHint{Broker: s.broker(), Since: model.Never})
		}
		s.handle(Command{Hints: hints})
	case 1, 2:
		s.stop(b)
	case 3, 4, 5:
		s.start(b)
	case 6, 7, 8:
		s.proposal()
	case 9, 10:
		s.arrive()
	case 11:
		s.administrate()
	case 12:
		s.due()
	case 13:
		if s.rng.IntN(2) == 0 {
			s.stall(b)
		} else if !s.careful {
			s.damage(b)
		}
	default:
		for range 3 {
			s.produce()
		}
	}
}

// due does what time asks for.
func (s *safety) due() {
	s.c.Wake(s.now)
	for {
		r, more := s.c.Expire(s.now, s.c.Image())
		if !more {
			return
		}
		s.apply(r)
	}
}

// stall has a broker give up partitions whose disk does not answer.
func (s *safety) stall(b model.BrokerID) {
	reg := s.c.Image().Broker(b)
	if reg == nil || !s.brokers[b].alive {
		return
	}
	_, tp, _ := s.anyPartition()
	s.handle(Command{Damage: &DamageReport{Broker: b, Epoch: reg.Epoch, Stalled: []model.TopicIDPartition{tp}}})
}

// damage quarantines a replica of a running broker, or an administrator forgets
// one that is down.
func (s *safety) damage(b model.BrokerID) {
	reg := s.c.Image().Broker(b)
	switch {
	case reg == nil:
	case s.brokers[b].alive:
		s.damaged = true
		_, tp, _ := s.anyPartition()
		m := s.parts[tp]
		m.wiped[b] = m.wiped[b] || m.has[b] > 0
		m.has[b] = 0
		s.brokers[b].unknown = true // until the report is carried out
		s.handle(Command{Damage: &DamageReport{Broker: b, Epoch: reg.Epoch, Replicas: []model.TopicIDPartition{tp}}})
		s.brokers[b].unknown = false
	case s.rng.IntN(4) == 0:
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = int32(b)
		s.handle(Command{Request: req})
	}
}

// produce commits a record if those who must hold it live.
func (s *safety) produce() {
	t, tp, p := s.anyPartition()
	if p.Leader == model.NoLeader || len(p.ISR) < min(s.c.settings(s.c.Image()).of(t).MinISR, len(p.Replicas)) {
		return
	}
	holders := slices.Clone(p.ISR)
	for _, l := range s.late {
		if l.tp == tp && l.at == p.PartitionEpoch { // the maximal ISR
			holders = append(holders, l.members...)
		}
	}
	for _, b := range holders {
		if !s.brokers[b].alive {
			return
		}
	}
	m := s.parts[tp]
	m.committed++
	for _, b := range holders {
		m.has[b], m.wiped[b] = m.committed, false
	}
}

// stop ends a process.
func (s *safety) stop(b model.BrokerID) {
	m := &s.brokers[b]
	if !m.alive {
		return
	}
	stop := metadata.Stop(s.rng.IntN(3))
	if stop == metadata.StopPower && s.careful && !s.whole(b) {
		stop = metadata.StopProcess
	}
	m.alive, m.stop = false, stop
	if stop != metadata.StopPower {
		return
	}
	m.unknown = true
	wipe := !s.careful && s.rng.IntN(3) == 0
	if wipe {
		m.disk++
	}
	for _, p := range s.parts { // order-free: each by itself
		if p.has[b] /= 2; wipe {
			p.wiped[b] = p.wiped[b] || p.has[b] > 0
			p.has[b] = 0
		}
	}
}

// whole reports whether every partition has two live members in sync without b.
func (s *safety) whole(b model.BrokerID) bool {
	for t := range s.c.Image().Topics() {
		for _, p := range t.Partitions {
			n := 0
			for _, id := range p.ISR {
				if s.brokers[id].alive && id != b {
					n++
				}
			}
			if n < 2 {
				return false
			}
		}
	}
	return true
}

// start registers a new life. What a loss of power left is told.
func (s *safety) start(b model.BrokerID) {
	m := &s.brokers[b]
	if m.alive {
		return
	}
	m.alive, m.life = true, m.life+1
	facts := RegistrationFacts{Stop: m.stop}
	if m.stop == metadata.StopPower {
		facts.Ends = []ReplicaEnd{}
		for tp, p := range s.parts { // order-free: a set
			end := model.OffsetAndEpoch{Offset: model.Offset(p.has[b])}
			if p.has[b] == 0 {
				end.Epoch = model.NoEpoch
			}
			facts.Ends = append(facts.Ends, ReplicaEnd{tp, end})
		}
	}
	m.unknown = false
	req := s.registerRequest(b, m.life, "", 1)
	req.LogDirs[0][15] = m.disk
	s.handle(Command{Request: req, Registration: &facts})
}

// proposal lets a leader ask for another ISR; the request is under way then.
func (s *safety) proposal() {
	t, tp, p := s.anyPartition()
	if p.Leader == model.NoLeader || !s.brokers[p.Leader].alive {
		return
	}
	members := []model.BrokerID{}
	for _, b := range p.Replicas {
		live := s.brokers[b].alive && s.c.Image().Broker(b).Active()
		switch {
		case b == p.Leader, p.InISR(b) && s.rng.IntN(4) > 0:
			members = append(members, b)
		case live && s.rng.IntN(4) > 0: // it has fetched all there is
			s.parts[tp].has[b] = s.parts[tp].committed
			s.parts[tp].wiped[b] = s.parts[tp].wiped[b] && s.parts[tp].has[b] == 0
			members = append(members, b)
		}
	}
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, int32(p.Leader), s.heartbeatRequest(p.Leader).BrokerEpoch
	rt, rp := kmsg.NewAlterPartitionRequestTopic(), kmsg.NewAlterPartitionRequestTopicPartition()
	rt.TopicID, rp.Partition = t.ID, tp.Partition
	rp.LeaderEpoch, rp.PartitionEpoch = int32(p.LeaderEpoch), int32(p.PartitionEpoch)
	for _, b := range members {
		e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		e.BrokerID, e.BrokerEpoch = int32(b), s.heartbeatRequest(b).BrokerEpoch
		rp.NewEpochISR = append(rp.NewEpochISR, e)
	}
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	s.late = append(s.late, &lateProposal{req: req, tp: tp, at: p.PartitionEpoch, members: members})
}

// arrive brings one of the proposals, any of them.
func (s *safety) arrive() {
	if len(s.late) == 0 {
		return
	}
	i := s.rng.IntN(len(s.late))
	l := s.late[i]
	s.late = slices.Delete(s.late, i, i+1)
	s.handle(Command{Request: l.req})
}

// administrate does what people do.
func (s *safety) administrate() {
	t, tp, _ := s.anyPartition()
	switch k := s.rng.IntN(5); {
	case k == 0 && !s.careful:
		s.setCluster(keyMinISR, fmt.Sprint(1+s.rng.IntN(3)))
	case k == 1 && !s.careful:
		s.setCluster(keyUnclean, fmt.Sprint(s.rng.IntN(4) == 0))
	case k == 2:
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version = 2
		s.handle(Command{Request: req})
	default:
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		rt, rp := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		rt.Topic, rp.Partition = t.Name, tp.Partition
		if s.rng.IntN(4) > 0 {
			rp.Replicas = []int32{}
			for _, b := range s.rng.Perm(safetyBrokers)[:2+s.rng.IntN(2)] {
				rp.Replicas = append(rp.Replicas, int32(b+1))
			}
		}
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		s.handle(Command{Request: req})
	}
}

// follow moves the model to the image and checks invariant 9.
func (s *safety) follow(old *metadata.Image) {
	for t := range s.c.Image().Topics() {
		for n, p := range t.Partitions {
			tp := model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)}
			m, was := s.parts[tp], old.PartitionByID(tp)
			if m == nil || was == nil || p == was {
				continue
			}
			if p.Leader != model.NoLeader && !was.InISR(p.Leader) && !was.InELR(p.Leader) && m.has[p.Leader] < m.committed &&
				// Who died in an ISR that it was just taken into leads nothing.
				(!s.brokers[p.Leader].unknown || p.Recovery == metadata.Recovering && len(p.ISR) == 1) {
				s.unclean(tp, m, was, p)
			}
			at := fmt.Sprintf("%s-%d: %s; %d committed, held %v", t.Name, n, p, m.committed, m.has[1:])
			for _, b := range append(slices.Clone(p.ISR), p.ELR...) {
				if m.has[b] < m.committed && !s.brokers[b].unknown {
					s.t.Fatalf("broker %d has not all that is committed: %s", b, at)
				}
			}
			for _, b := range p.LastKnown {
				if p.InISR(b) || p.InELR(b) {
					s.t.Fatalf("broker %d is last known and has a seat: %s", b, at)
				}
			}
			enough := min(s.c.settings(s.c.Image()).of(t).MinISR, len(p.Replicas))
			if len(p.ELR) > 0 && len(p.ISR) >= enough {
				s.t.Fatalf("eligible leaders beside %d members, %d are enough: %s", len(p.ISR), enough, at)
			}
		}
	}
}

// unclean takes over what an unclean election leaves.
func (s *safety) unclean(tp model.TopicIDPartition, m *modelPartition, was, p *metadata.PartitionRegistration) {
	if s.careful {
		s.t.Fatalf("a committed record is given up: %s became %s; %d committed, held %v", was, p, m.committed, m.has[1:])
	}
	if p.Recovery != metadata.Recovering {
		s.t.Fatalf("an unclean leader is not recovering: %s became %s", was, p)
	}
	t := s.c.Image().TopicByID(tp.TopicID)
	if m.wiped[p.Leader] && m.has[p.Leader] == 0 && !s.brokers[p.Leader].unknown && !s.c.settings(s.c.Image()).of(t).Unclean {
		s.t.Fatalf("the empty log of a wiped disk is elected: %s became %s; %d committed, held %v", was, p, m.committed, m.has[1:])
	}
	m.committed = m.has[p.Leader]
	for b := range m.has {
		m.has[b] = min(m.has[b], m.committed)
	}
}

// settle lets everybody come back: every partition gets a leader.
func (s *safety) settle() {
	s.late = nil
	for range 3 {
		for b := model.BrokerID(1); b <= safetyBrokers; b++ {
			s.start(b)
			s.handle(Command{Request: s.heartbeatRequest(b)})
		}
		s.now.Mono += model.Instant(s.c.config.RecoveryWait)
		s.due()
	}
	for t := range s.c.Image().Topics() {
		for n, p := range t.Partitions {
			tp := model.TopicIDPartition{TopicID: t.ID, Partition: int32(n)}
			lost := slices.ContainsFunc(p.LastKnown, func(b model.BrokerID) bool { return s.brokers[b].disk > 0 })
			if p.Leader == model.NoLeader && !lost && !s.damaged {
				s.t.Fatalf("no leader when all brokers are back: %s-%d %s; held %v", t.Name, n, p, s.parts[tp].has[1:])
			}
		}
	}
}
