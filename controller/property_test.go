package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// randomCommand returns a command of any kind, with some chance a bad one.
func (w *world) randomCommand(rng *rand.Rand) Command {
	m := w.c.Image()
	b := model.BrokerID(rng.IntN(4))
	name := fmt.Sprintf("t%d", rng.IntN(6))
	if rng.IntN(3) == 0 {
		return w.randomElection(rng, b, m.Topic(name))
	}
	switch rng.IntN(10) {
	case 0:
		life := rng.IntN(200)
		req := w.registerRequest(b, life, []string{"", "a", "b"}[rng.IntN(3)], 1+rng.IntN(2))
		facts := &RegistrationFacts{Stop: metadata.Stop(rng.IntN(3))}
		if t := m.Topic(name); t != nil && rng.IntN(3) == 0 {
			facts.Damaged = []model.TopicIDPartition{{TopicID: t.ID, Partition: 0}}
		}
		return Command{Request: req, Registration: facts}
	case 1, 2, 3:
		req := w.heartbeatRequest(b)
		req.WantFence, req.WantShutdown = rng.IntN(8) == 0, rng.IntN(8) == 0
		if rng.IntN(10) == 0 {
			req.OfflineLogDirs = [][16]byte{{0xd, byte(b), 0}}
		}
		return Command{Request: req}
	case 4, 5:
		req := createRequest(name, int32(rng.IntN(5)), int16(rng.IntN(4)))
		req.ValidateOnly = rng.IntN(6) == 0
		return Command{Request: req}
	case 6:
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TopicNames = 5, []string{name}
		return Command{Request: req}
	case 7:
		req := kmsg.NewPtrCreatePartitionsRequest()
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = name, int32(rng.IntN(7))
		req.Topics = append(req.Topics, t)
		return Command{Request: req}
	case 8:
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r, c := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		if rng.IntN(4) == 0 {
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, ""
		}
		v := fmt.Sprint(1 + rng.IntN(3))
		c.Name, c.Value, c.Op = "min.insync.replicas", &v, kmsg.IncrementalAlterConfigOp(rng.IntN(2))
		r.Configs = append(r.Configs, c)
		req.Resources = append(req.Resources, r)
		return Command{Request: req}
	}
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = int32(b), w.heartbeatRequest(b).BrokerEpoch
	return Command{Request: req}
}

// randomElection returns a command that moves leaders, ISRs or replicas of t.
func (w *world) randomElection(rng *rand.Rand, b model.BrokerID, t *metadata.Topic) Command {
	if t == nil {
		return Command{Hints: []FenceHint{{Broker: b, Since: w.now.Mono}, {Broker: model.BrokerID(rng.IntN(4)), Since: w.now.Mono}}}
	}
	n := int32(rng.IntN(len(t.Partitions)))
	p := t.Partitions[n]
	replicas := []int32{}
	for _, id := range rng.Perm(4)[:1+rng.IntN(3)] {
		replicas = append(replicas, int32(id))
	}
	switch rng.IntN(6) {
	case 0:
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.ElectionType = 2, int8(rng.IntN(3))
		if rng.IntN(2) == 0 {
			req.Topics = append(req.Topics, kmsg.ElectLeadersRequestTopic{Topic: t.Name, Partitions: []int32{n, n + 1}})
		}
		return Command{Request: req}
	case 1, 2:
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.Version, req.AllowReplicationFactorChange = 1, rng.IntN(3) > 0
		rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		if rp.Partition = n; rng.IntN(4) > 0 {
			rp.Replicas = replicas
		}
		req.Topics = append(req.Topics, kmsg.AlterPartitionAssignmentsRequestTopic{Topic: t.Name,
			Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{rp}})
		return Command{Request: req}
	case 3:
		r := &DamageReport{Broker: b, Epoch: model.BrokerEpoch(w.heartbeatRequest(b).BrokerEpoch)}
		for k := range t.Partitions {
			tp := model.TopicIDPartition{TopicID: t.ID, Partition: int32(k)}
			switch rng.IntN(4) {
			case 0:
				r.Replicas = append(r.Replicas, tp)
			case 1, 2:
				r.Stalled = append(r.Stalled, tp)
			}
		}
		return Command{Damage: r}
	}
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version = int16(2 + rng.IntN(2))
	req.BrokerID, req.BrokerEpoch = int32(p.Leader), w.heartbeatRequest(p.Leader).BrokerEpoch
	rp := kmsg.NewAlterPartitionRequestTopicPartition()
	rp.Partition, rp.LeaderEpoch, rp.PartitionEpoch = n, int32(p.LeaderEpoch), int32(p.PartitionEpoch)
	rp.LeaderRecoveryState = int8(rng.IntN(8) / 7)
	for i, id := range p.Replicas {
		if id == p.Leader || (i+rng.IntN(2))%2 == 0 {
			e := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			e.BrokerID, e.BrokerEpoch = int32(id), w.heartbeatRequest(id).BrokerEpoch
			rp.NewISR, rp.NewEpochISR = append(rp.NewISR, e.BrokerID), append(rp.NewEpochISR, e)
		}
	}
	req.Topics = append(req.Topics, kmsg.AlterPartitionRequestTopic{TopicID: t.ID,
		Partitions: []kmsg.AlterPartitionRequestTopicPartition{rp, rp}})
	return Command{Request: req}
}

// TestRandomCommands: after every unit of every command the invariants hold and
// epochs never fall; Handle changes nothing; replaying the log gives the image.
func TestRandomCommands(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 9))
		w := newWorld(t, seed)
		for range 300 {
			w.now.Mono += model.Instant(rng.IntN(3e9))
			w.c.Wake(w.now)
			var r Result
			before := w.c.Image()
			if expired, ok := w.c.Expire(w.now, before); ok {
				r = expired
			} else {
				r = w.c.Handle(w.now, before, w.randomCommand(rng))
			}
			if w.c.Image() != before {
				t.Fatalf("seed %d: Handle moved the image", seed)
			}
			for _, u := range r.Units { // a crash may leave any prefix of them
				old := w.c.Image()
				w.replay(u)
				w.invariants()
				w.epochsRise(old)
			}
			if r.reply != nil && r.Reply(w.at) == nil {
				t.Fatalf("seed %d: no answer", seed)
			}
			if resp, ok := r.reply.(*kmsg.AlterPartitionResponse); ok {
				w.answeredAsIs(resp)
			}
		}
		w.now.Mono += 1e9 * 600
		w.c.Wake(w.now)
		for i := 0; ; i++ { // what is due comes to an end
			r, more := w.c.Expire(w.now, w.c.Image())
			if !more {
				break
			}
			if i > 20 {
				t.Fatalf("seed %d: there is always something due: %s", seed, metadata.Format(r.Records()[0]))
			}
			w.commit(r)
		}
		m := metadata.Empty()
		for i, recs := range w.mlog {
			var err error
			if m, _, err = metadata.Apply(m, model.OffsetAndEpoch{Offset: model.Offset(i), Epoch: 1}, recs); err != nil {
				t.Fatalf("seed %d: replay of entry %d: %v", seed, i, err)
			}
		}
		if m.Hash() != w.c.Image().Hash() || m.At() != w.c.Image().At() {
			t.Fatalf("seed %d: replay gives another image", seed)
		}
	}
}

// answeredAsIs checks that a leader was told what is committed now.
func (w *world) answeredAsIs(resp *kmsg.AlterPartitionResponse) {
	w.t.Helper()
	for _, t := range resp.Topics {
		for _, a := range t.Partitions {
			if a.ErrorCode != codeNone {
				continue
			}
			p := w.c.Image().PartitionByID(model.TopicIDPartition{TopicID: t.TopidID, Partition: a.Partition})
			if int32(p.Leader) != a.LeaderID || int32(p.LeaderEpoch) != a.LeaderEpoch || int32(p.PartitionEpoch) != a.PartitionEpoch ||
				!slices.Equal(brokerInts(p.ISR), a.ISR) || int8(p.Recovery) != a.LeaderRecoveryState {
				w.t.Fatalf("answered %+v, committed %s", a, p)
			}
		}
	}
}

// epochsRise checks the epoch rules between two images one unit apart: a change
// raises the partition epoch, a change of leader the leader epoch.
func (w *world) epochsRise(old *metadata.Image) {
	w.t.Helper()
	for t := range w.c.Image().Topics() {
		was := old.TopicByID(t.ID)
		if was == nil {
			continue
		}
		for n, p := range t.Partitions {
			q := was.Partition(int32(n))
			if q == nil || p == q {
				continue
			}
			if p.PartitionEpoch <= q.PartitionEpoch || p.LeaderEpoch < q.LeaderEpoch {
				w.t.Fatalf("%s-%d: epochs fall from %s to %s", t.Name, n, q, p)
			}
			if p.Leader != q.Leader && p.LeaderEpoch == q.LeaderEpoch {
				w.t.Fatalf("%s-%d: leader changes within an epoch: %s to %s", t.Name, n, q, p)
			}
		}
	}
}

// TestRestartRaisesEpochs: a single broker that goes through any number of
// lives leads all its partitions after each, in a higher epoch.
func TestRestartRaisesEpochs(t *testing.T) {
	w := newWorld(t, 3)
	w.join(0)
	w.do(createRequest("t", 3, 1))
	last := model.LeaderEpoch(0)
	for life := 2; life < 12; life++ {
		req := w.registerRequest(0, life, "", 1)
		w.commit(w.c.Handle(w.now, w.c.Image(), Command{Request: req,
			Registration: &RegistrationFacts{Stop: metadata.Stop(life % 3)}}))
		w.do(w.heartbeatRequest(0))
		for _, p := range w.c.Image().Topic("t").Partitions {
			if p.Leader != 0 || p.LeaderEpoch <= last || !slices.Equal(p.ISR, []model.BrokerID{0}) {
				t.Fatalf("life %d: %s after epoch %d", life, p, last)
			}
		}
		last = w.c.Image().Topic("t").Partitions[0].LeaderEpoch
	}
}

// TestMovedDirectory: an incarnation that comes with another directory has its
// replicas looked for there.
func TestMovedDirectory(t *testing.T) {
	w := newWorld(t, 3)
	w.join(1)
	w.do(createRequest("t", 1, 1))
	req := w.registerRequest(1, 2, "", 1)
	req.LogDirs[0][5] = 99
	w.do(req)
	w.do(w.heartbeatRequest(1))
	p := w.c.Image().Partition("t", 0)
	if p.Leader != 1 || p.Directory(1) != metadata.DirectoryID(req.LogDirs[0]) {
		t.Fatalf("%s in %s", p, p.Directory(1))
	}
}

func TestDeadline(t *testing.T) {
	w := newWorld(t, 3)
	w.join(1)
	for deadline, want := range map[model.Instant]int16{0: 0, model.Never: 0, w.now.Mono + 1: 0, w.now.Mono: codeRequestTimedOut} {
		r := w.c.Handle(w.now, w.c.Image(), Command{Request: createRequest("t", 1, 1), Deadline: deadline})
		if got := r.Reply(w.at).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; got != want || (len(r.Units) > 0) != (want == 0) {
			t.Errorf("deadline %d: code %d, %d units", deadline, got, len(r.Units))
		}
	}
}

func TestTopicDeletionDisabled(t *testing.T) {
	w := newWorld(t, 3)
	w.c.config.TopicDeletionDisabled = true
	for version, want := range map[int16]int16{1: codeInvalidRequest, 3: codeTopicDeletionDisabled, 6: codeTopicDeletionDisabled} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		name := "t"
		req.Version, req.TopicNames, req.Topics = version, []string{name}, []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		resp := w.do(req).(*kmsg.DeleteTopicsResponse)
		if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != want {
			t.Errorf("v%d: %+v", version, resp.Topics)
		}
	}
}

// TestErrorReply: every item of every request gets the code.
func TestErrorReply(t *testing.T) {
	w := newWorld(t, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	w.join(0, 1, 2, 3)
	for range 300 {
		cmd := w.randomCommand(rng)
		codes := 0
		if cmd.Request == nil {
			if ErrorReply(nil, 41, "why") != nil {
				t.Fatal("an answer to nobody")
			}
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(answer(ErrorReply(cmd.Request, 41, "why"))), "\n") {
			if !strings.Contains(line, "code=41") {
				t.Fatalf("%T: %q", cmd.Request, line)
			}
			codes++
		}
		if codes == 0 {
			t.Fatalf("%T: no answer", cmd.Request)
		}
	}
	if ErrorReply(kmsg.NewPtrFetchRequest(), 41, "") != nil {
		t.Error("a request that is no command got an answer")
	}
}

// TestPack: entries keep order and units, and stay within both bounds.
func TestPack(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var units [][]metadata.Record
		var all []metadata.Record
		for range rng.IntN(60) {
			var u []metadata.Record
			for range 1 + rng.IntN(900) {
				v := strings.Repeat("v", rng.IntN(400))
				u = append(u, &metadata.ConfigRecord{Key: "k", Value: &v})
			}
			units, all = append(units, u), append(all, u...)
		}
		var got []metadata.Record
		ends := map[int]bool{}
		for _, e := range Pack(units) {
			size := len(metadata.AppendEntry(nil, metadata.Entry{Time: 1 << 42, Records: e}))
			if len(e) > RecordsMax || size > EntryBytesMax {
				t.Fatalf("seed %d: entry of %d records, %d bytes", seed, len(e), size)
			}
			got = append(got, e...)
			ends[len(got)] = true
		}
		if !slices.Equal(got, all) {
			t.Fatalf("seed %d: records changed", seed)
		}
		n, cuts := 0, 0
		for _, u := range units {
			if n += len(u); ends[n] {
				cuts++
			}
		}
		if cuts != len(ends) {
			t.Fatalf("seed %d: an entry ends inside a unit", seed)
		}
	}
}

// TestPlacement: distinct replicas, in as many racks as possible, leaders and
// replicas spread evenly, fenced brokers only where it cannot be helped.
func TestPlacement(t *testing.T) {
	for _, racks := range [][]string{{"", "", "", ""}, {"a", "b", "c"}, {"a", "a", "b", "b", "c", "c"}, {""}} {
		w := newWorld(t, 11)
		distinct := map[string]bool{}
		for i, rack := range racks {
			w.do(w.registerRequest(model.BrokerID(i), 1, rack, 1))
			w.do(w.heartbeatRequest(model.BrokerID(i)))
			distinct[rack] = true
		}
		for rf := 1; rf <= len(racks); rf++ {
			n := 60 * len(racks)
			placed, e := w.c.place(w.c.Image(), 0, int32(n), rf)
			if e.failed() {
				t.Fatal(e.message)
			}
			leads, holds := map[model.BrokerID]int{}, map[model.BrokerID]int{}
			for _, replicas := range placed {
				used := map[string]bool{}
				for i, b := range replicas {
					if slices.Contains(replicas[:i], b) {
						t.Fatalf("racks %v rf %d: %v", racks, rf, replicas)
					}
					used[racks[b]] = true
					holds[b]++
				}
				if len(replicas) != rf || len(used) != min(rf, len(distinct)) {
					t.Fatalf("racks %v rf %d: %v lies in %d racks", racks, rf, replicas, len(used))
				}
				leads[replicas[0]]++
			}
			for b := range racks {
				id := model.BrokerID(b)
				if d := leads[id] - n/len(racks); d < -2 || d > 2 {
					t.Errorf("racks %v rf %d: broker %d leads %d of %d", racks, rf, b, leads[id], n)
				}
				if d := holds[id] - n*rf/len(racks); d < -n/10 || d > n/10 {
					t.Errorf("racks %v rf %d: broker %d holds %d of %d", racks, rf, b, holds[id], n*rf)
				}
			}
		}
	}
	w := newWorld(t, 12)
	w.join(1)
	w.do(w.registerRequest(2, 1, "", 1))
	placed, e := w.c.place(w.c.Image(), 0, 4, 2)
	if e.failed() {
		t.Fatal(e.message)
	}
	for _, r := range placed {
		if !slices.Equal(r, []model.BrokerID{1, 2}) {
			t.Errorf("fenced broker first: %v", r)
		}
	}
}

// again is the same change of the partition as it is now.
func again(ch *change, m *metadata.Image) *change {
	next := *ch
	next.view, next.topic = m, m.TopicByID(ch.topic.ID)
	if ch.isr != nil && next.topic.Partitions[ch.n].Leader != model.NoLeader {
		next.isr = nil // the ISR is what the election made of it
	}
	return &next
}

// TestElections goes through the cases of the election rules by hand.
func TestElections(t *testing.T) {
	for _, c := range []struct {
		name     string
		p        metadata.PartitionRegistration
		down     []model.BrokerID
		election Election
		minISR   int
		isr      []model.BrokerID // target, nil keeps
		want     string           // "" is no record
	}{
		{name: "keeps the leader", p: metadata.PartitionRegistration{Replicas: ids(1, 2, 3), ISR: ids(2, 1), Leader: 2}, want: ""},
		{name: "preferred", p: metadata.PartitionRegistration{Replicas: ids(1, 2, 3), ISR: ids(2, 1), Leader: 2},
			election: ElectPreferred, want: "leader=1"},
		{name: "preferred is not in the isr", p: metadata.PartitionRegistration{Replicas: ids(1, 2, 3), ISR: ids(2), Leader: 2},
			election: ElectPreferred, want: ""},
		{name: "first valid in assignment order", p: metadata.PartitionRegistration{Replicas: ids(3, 2, 1), ISR: ids(1, 2, 3), Leader: 3},
			down: ids(3), isr: ids(1, 2), want: "isr=[1 2] leader=2"},
		{name: "below min isr the others stay eligible", p: metadata.PartitionRegistration{Replicas: ids(1, 2, 3), ISR: ids(1, 2, 3), Leader: 1},
			down: ids(3), isr: ids(1), minISR: 2, want: "isr=[1] elr=[2 3]"},
		{name: "at min isr nobody needs to", p: metadata.PartitionRegistration{Replicas: ids(1, 2, 3), ISR: ids(1), ELR: ids(2), Leader: 1},
			isr: ids(1, 3), minISR: 2, want: "isr=[1 3] elr=[]"},
		{name: "an eligible leader is elected when the isr is empty",
			p:    metadata.PartitionRegistration{Replicas: ids(1, 2, 3), ELR: ids(3, 2), Leader: -1},
			down: ids(2), minISR: 2, want: "isr=[3] elr=[2] leader=3"},
		{name: "also while a member of the isr is fenced, which then is eligible",
			p:    metadata.PartitionRegistration{Replicas: ids(1, 2), ISR: ids(1), ELR: ids(2), Leader: -1},
			down: ids(1), minISR: 2, want: "isr=[2] elr=[1] leader=2"},
		{name: "not while a member of the isr is active", p: metadata.PartitionRegistration{Replicas: ids(1, 2, 3), ISR: ids(3), ELR: ids(2), Leader: -1},
			down: ids(1), minISR: 2, want: "leader=3"},
		{name: "unclean ends the eligibility of others",
			p:    metadata.PartitionRegistration{Replicas: ids(1, 2, 3), ISR: ids(1), ELR: ids(2), Leader: 1},
			down: ids(1, 2), isr: ids(), election: ElectUnclean, minISR: 2, want: "isr=[3] elr=[] leader=3 recovery=1"},
		{name: "unclean only if asked for", p: metadata.PartitionRegistration{Replicas: ids(1, 2), ISR: ids(1), Leader: -1},
			down: ids(1), want: ""},
		{name: "unclean", p: metadata.PartitionRegistration{Replicas: ids(1, 2), ISR: ids(1), Leader: -1},
			down: ids(1), election: ElectUnclean, want: "isr=[2] leader=2 recovery=1"},
		{name: "several last known members are not guessed at",
			p: metadata.PartitionRegistration{Replicas: ids(1, 2), LastKnown: ids(1, 2), Leader: -1}, want: ""},
		{name: "one last known member", p: metadata.PartitionRegistration{Replicas: ids(1, 2), LastKnown: ids(2), Leader: -1},
			want: "isr=[2] lastKnown=[] leader=2 recovery=1"},
	} {
		w := newWorld(t, 1)
		w.join(1, 2, 3)
		var recs []metadata.Record
		for _, b := range c.down {
			recs = append(recs, &metadata.BrokerChange{ID: b, Epoch: w.c.Image().Broker(b).Epoch, Fenced: metadata.Set})
		}
		id := model.TopicID{1}
		recs = append(recs, &metadata.TopicRecord{Name: "t", ID: id}, &metadata.PartitionRecord{TopicID: id, PartitionRegistration: c.p})
		w.replay(recs)
		ch := newChange(w.c.Image(), w.c.Image().Topic("t"), 0)
		ch.election, ch.minISR, ch.isr = c.election, max(1, c.minISR), c.isr
		got := ""
		if r := ch.build(); r != nil {
			got = strings.TrimPrefix(metadata.Format(r), fmt.Sprintf("PartitionChange topic=%s n=0 ", id))
			w.replay([]metadata.Record{r})
			if r = again(ch, w.c.Image()).build(); r != nil {
				t.Errorf("%s: again gives %s", c.name, metadata.Format(r))
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestTopicSettings: what elections depend on is what the topic's settings say as
// a whole, in every layer.
func TestTopicSettings(t *testing.T) {
	rules := NewConfigRules(config.Defaults()).(brokerRules)
	for _, cluster := range []map[string]string{nil, {keyMinISR: "3"}, {keyUnclean: "true", keyMinISR: "2"}} {
		for _, own := range []map[string]string{nil, {keyMinISR: "4"}, {keyUnclean: "true"}, {keyUnclean: "false", "retention.ms": "7"}} {
			recs := []metadata.Record{&metadata.TopicRecord{Name: "t", ID: model.TopicID{1}},
				newPartition(metadata.Empty(), model.TopicID{1}, 0, nil)}
			recs[1].(*metadata.PartitionRecord).Replicas = ids(1)
			for k, v := range cluster {
				recs = append(recs, &metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.BrokerResource}, Key: k, Value: &v})
			}
			for k, v := range own {
				recs = append(recs, &metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.TopicResource, Name: "t"}, Key: k, Value: &v})
			}
			m, _, err := metadata.Apply(metadata.Empty(), model.OffsetAndEpoch{}, recs)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := rules.broker.Topic(cluster, own)
			if err != nil {
				t.Fatal(err)
			}
			want := TopicSettings{MinISR: int(whole.MinInsyncReplicas), Unclean: whole.UncleanLeaderElection}
			if got := rules.Topic(m, "t"); got != want {
				t.Errorf("cluster %v, topic %v: %+v, want %+v", cluster, own, got, want)
			}
		}
	}
}
