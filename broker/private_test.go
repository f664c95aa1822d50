package broker

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

func TestCommandsTravel(t *testing.T) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = "orders", 3, 2
	req.Topics = append(req.Topics, rt)
	b := appendCommand(nil, command{controller.Command{Request: req}, 1234})
	c, err := decodeCommand(b)
	if err != nil {
		t.Fatal(err)
	}
	if c.millis != 1234 || !reflect.DeepEqual(c.cmd.Request, kmsg.Request(req)) {
		t.Errorf("got %+v", c)
	}
	for n := range b {
		if _, err := decodeCommand(b[:n]); err == nil {
			t.Errorf("a command cut to %d of %d bytes was taken", n, len(b))
		}
	}
	produce := kmsg.NewPtrProduceRequest()
	produce.Version = 9
	if _, err := decodeCommand(appendCommand(nil, command{controller.Command{Request: produce}, -1})); !errors.Is(err, errPrivate) {
		t.Errorf("a Produce as a command: %v", err)
	}
}

func TestRegistrationsTravel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	id := func() (p model.TopicIDPartition) {
		for i := range p.TopicID {
			p.TopicID[i] = byte(rng.Uint32())
		}
		p.Partition = rng.Int32()
		return p
	}
	for _, f := range []controller.RegistrationFacts{
		{Stop: metadata.StopClean},
		{Stop: metadata.StopPower, Damaged: []model.TopicIDPartition{id(), id()}},
		{Stop: metadata.StopProcess, Ends: []controller.ReplicaEnd{}},
		{Stop: metadata.StopPower, Damaged: []model.TopicIDPartition{id()}, Ends: []controller.ReplicaEnd{
			{TopicIDPartition: id(), End: model.OffsetAndEpoch{Offset: 1 << 40, Epoch: 7}},
			{TopicIDPartition: id(), End: model.OffsetAndEpoch{Epoch: model.NoEpoch}},
		}},
	} {
		req := kmsg.NewPtrBrokerRegistrationRequest()
		req.BrokerID, req.ClusterID, req.LogDirs = 3, "c", [][16]byte{{1}, {2}}
		b := appendRegistration(nil, req, &f)
		cmd, err := decodeRegistration(b)
		if err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if !reflect.DeepEqual(*cmd.Registration, f) || !reflect.DeepEqual(cmd.Request, kmsg.Request(req)) {
			t.Errorf("got %+v %+v, want %+v", cmd.Request, cmd.Registration, f)
		}
		for n := range b {
			if _, err := decodeRegistration(b[:n]); err == nil {
				t.Errorf("%+v: cut to %d of %d bytes it was taken", f, n, len(b))
			}
		}
	}
}

func TestDamageTravels(t *testing.T) {
	r := &controller.DamageReport{Broker: 3, Epoch: 1 << 40, Replicas: []model.TopicIDPartition{{TopicID: model.TopicID{1}, Partition: 2}, {TopicID: model.TopicID{2}}},
		Stalled: []model.TopicIDPartition{{TopicID: model.TopicID{3}, Partition: 1}}}
	b := appendDamage(nil, r)
	if cmd, err := decodeDamage(b); err != nil || !reflect.DeepEqual(cmd.Damage, r) {
		t.Errorf("got %+v (%v)", cmd.Damage, err)
	}
	for n := range b {
		if _, err := decodeDamage(b[:n]); err == nil {
			t.Errorf("cut to %d of %d bytes it was taken", n, len(b))
		}
	}
}

func TestOutcomesTravel(t *testing.T) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version = 1
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	resp.IsFenced, resp.ShouldShutdown = true, true
	for _, o := range []outcome{
		{at: model.OffsetAndEpoch{Offset: 77, Epoch: 5}, resp: resp},
		{code: protocol.CodeNotController},
	} {
		got, err := decodeOutcome(req, appendOutcome(nil, o))
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("got %+v (%v), want %+v", got, err, o)
		}
	}
	if _, err := decodeOutcome(req, make([]byte, 13)); !errors.Is(err, errPrivate) {
		t.Errorf("13 bytes: %v", err)
	}
}

// FuzzPrivate: no bytes of another node make the decoders panic or take more
// memory than the bytes account for.
func FuzzPrivate(f *testing.F) {
	f.Add(appendCommand(nil, command{controller.Command{Request: kmsg.NewPtrBrokerHeartbeatRequest()}, 1}))
	f.Add(appendRegistration(nil, kmsg.NewPtrBrokerRegistrationRequest(), &controller.RegistrationFacts{Ends: []controller.ReplicaEnd{{}}}))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = decodeCommand(b)
		_, _ = decodeRegistration(b)
		_, _ = decodeDamage(b)
		_, _ = decodeOutcome(kmsg.NewPtrCreateTopicsRequest(), b)
	})
}
