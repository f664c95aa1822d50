package metadata

import (
	"fmt"
	"math/rand/v2"

	"github.com/tidemark/tidemark/internal/model"
)

// randomRecord returns any record, sensible or not.
func randomRecord(rng *rand.Rand) Record {
	ids := func() (l []model.BrokerID) {
		for range rng.IntN(4) {
			l = append(l, model.BrokerID(rng.Int32()))
		}
		return l
	}
	maybe := func() []model.BrokerID {
		if rng.IntN(2) == 0 {
			return nil
		}
		return append([]model.BrokerID{}, ids()...)
	}
	dirs := func() (l []DirectoryID) {
		for range rng.IntN(3) {
			l = append(l, DirectoryID{byte(rng.Int()), 15: byte(rng.Int())})
		}
		return l
	}
	str := func() string { return fmt.Sprintf("s%d", rng.IntN(1000)) }
	topic := model.TopicID{byte(rng.Int()), byte(rng.Int())}
	listeners := func() (l []Listener) {
		for range rng.IntN(3) {
			l = append(l, Listener{Name: str(), Host: str(), Port: uint16(rng.Int()), Protocol: int16(rng.Int())})
		}
		return l
	}
	switch Kind(rng.IntN(int(KindReplicaEnd))) + 1 {
	case KindCluster:
		return &Cluster{ID: str()}
	case KindVoters:
		return &Voters{Voters: []Voter{{Node: 1, Directory: DirectoryID{1}, Listeners: listeners()}}}
	case KindFeature:
		return &FeatureLevel{Feature{str(), int16(rng.Int())}}
	case KindRegisterBroker:
		return &RegisterBroker{ID: model.BrokerID(rng.Int32()), Epoch: model.BrokerEpoch(rng.Int64()), Incarnation: Incarnation{9},
			Listeners: listeners(), Features: []FeatureRange{{str(), 1, int16(rng.Int())}}, Rack: str(), Directories: dirs(),
			Fenced: rng.IntN(2) == 0, InShutdown: rng.IntN(2) == 0}
	case KindUnregisterBroker:
		return &UnregisterBroker{ID: 7, Epoch: model.BrokerEpoch(rng.Int64())}
	case KindBrokerChange:
		r := &BrokerChange{ID: 7, Epoch: 8, Fenced: Switch(rng.IntN(3)), InShutdown: Switch(rng.IntN(3))}
		if rng.IntN(2) == 0 {
			r.Directories = append([]DirectoryID{}, dirs()...)
		}
		return r
	case KindBrokerEpochBump:
		return &BrokerEpochBump{ID: 3, Stop: Stop(rng.IntN(3)), Damaged: []model.TopicIDPartition{{TopicID: topic, Partition: 4}}}
	case KindTopic:
		return &TopicRecord{Name: str(), ID: topic}
	case KindPartition:
		return &PartitionRecord{TopicID: topic, Partition: rng.Int32(), PartitionRegistration: PartitionRegistration{
			Replicas: ids(), ISR: ids(), ELR: ids(), LastKnown: ids(), Adding: ids(), Removing: ids(), Directories: dirs(),
			Leader: model.BrokerID(rng.Int32()), LeaderEpoch: 5, PartitionEpoch: 6, Recovery: RecoveryState(rng.IntN(2))}}
	case KindPartitionChange:
		r := &PartitionChange{TopicID: topic, Partition: rng.Int32(), Replicas: maybe(), ISR: maybe(), ELR: maybe(),
			LastKnown: maybe(), Adding: maybe(), Removing: maybe(), Leader: model.BrokerID(rng.IntN(9) - 2), Recovery: -1}
		if rng.IntN(2) == 0 {
			r.Directories = append([]DirectoryID{}, dirs()...)
		}
		return r
	case KindRemoveTopic:
		return &RemoveTopic{ID: topic}
	case KindConfig:
		r := &ConfigRecord{Resource: Resource{ResourceType(rng.IntN(5)), str()}, Key: str()}
		if rng.IntN(3) > 0 {
			v := str()
			r.Value = &v
		}
		return r
	case KindReplicaEnd:
		return &ReplicaEnd{Broker: 3, TopicID: topic, Partition: rng.Int32(),
			End: model.OffsetAndEpoch{Offset: model.Offset(rng.Int64()), Epoch: model.LeaderEpoch(rng.Int32())}}
	case KindProducerIDs:
		return &ProducerIDs{Broker: 1, Epoch: 2, Next: model.ProducerID(rng.Int64())}
	}
	return &NoOp{}
}

// grow builds an image of one broker and topics × partitions.
func grow(topics, partitions int) *Image {
	e := NewEdit(Empty())
	at := model.OffsetAndEpoch{Offset: 1, Epoch: 1}
	recs := []Record{&Cluster{ID: "c"}, &RegisterBroker{ID: 1, Epoch: model.NoBrokerEpoch, Directories: []DirectoryID{{3}}}}
	for t := range topics {
		id := topicID(t)
		recs = append(recs, &TopicRecord{Name: fmt.Sprintf("topic-%04d", t), ID: id})
		for p := range partitions {
			recs = append(recs, &PartitionRecord{TopicID: id, Partition: int32(p), PartitionRegistration: PartitionRegistration{
				Replicas: []model.BrokerID{1, 2, 3}, ISR: []model.BrokerID{1, 2}, Leader: 1, LeaderEpoch: model.LeaderEpoch(p % 5)}})
		}
		v := fmt.Sprint(t)
		recs = append(recs, &ConfigRecord{Resource{TopicResource, fmt.Sprintf("topic-%04d", t)}, "retention.ms", &v})
	}
	if err := e.Apply(at, recs); err != nil {
		panic(err)
	}
	m, _ := e.Done()
	return m
}

func topicID(t int) model.TopicID { return model.TopicID{1, byte(t >> 8), byte(t)} }
