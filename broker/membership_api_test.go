package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// What a cluster of one answers to requests that move replicas, leaders and
// members.

func TestElectLeaders(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("elect", 2)
	for _, v := range versions(t, protocol.KeyElectLeaders) {
		req := kmsg.NewPtrElectLeadersRequest()
		req.TimeoutMillis = 10_000
		rt := kmsg.NewElectLeadersRequestTopic()
		rt.Topic, rt.Partitions = name, []int32{0, 9}
		req.Topics = append(req.Topics, rt)
		resp := a.dial().call(req, v).(*kmsg.ElectLeadersResponse)
		if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
			t.Fatalf("v%d: %+v", v, resp)
		}
		want := map[int32]protocol.Code{0: protocol.CodeElectionNotNeeded, 9: protocol.CodeUnknownTopicOrPartition}
		for _, p := range resp.Topics[0].Partitions {
			if p.ErrorCode != want[p.Partition] {
				t.Errorf("v%d: partition %d: code %d, want %d", v, p.Partition, p.ErrorCode, want[p.Partition])
			}
		}
	}
}

func TestReassignmentsOfOneBroker(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("move", 1)
	for _, v := range versions(t, protocol.KeyAlterReassignments) {
		for _, tt := range []struct {
			replicas []int32
			want     protocol.Code
		}{
			{[]int32{77}, protocol.CodeInvalidReplicaAssignment},
			{[]int32{1, 1}, protocol.CodeInvalidReplicaAssignment},
			{nil, protocol.CodeNoReassignmentInProgress},
			{[]int32{1}, 0},
		} {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.TimeoutMillis = 10_000
			rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			rt.Topic = name
			rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			rp.Replicas = tt.replicas
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			resp := a.dial().call(req, v).(*kmsg.AlterPartitionAssignmentsResponse)
			if resp.ErrorCode != 0 || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != tt.want {
				t.Errorf("v%d to %v: %+v, want code %d", v, tt.replicas, resp, tt.want)
			}
		}
	}
	for _, v := range versions(t, protocol.KeyListReassignments) {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.TimeoutMillis = 10_000
		if resp := a.dial().call(req, v).(*kmsg.ListPartitionReassignmentsResponse); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
			t.Errorf("v%d: %+v", v, resp)
		}
	}
}

func TestUpdateFeatures(t *testing.T) {
	a := newAPI(t)
	for _, v := range versions(t, protocol.KeyUpdateFeatures) {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.TimeoutMillis = 10_000
		rf := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		rf.Feature, rf.MaxVersionLevel = "no.such.feature", 1
		req.FeatureUpdates = append(req.FeatureUpdates, rf)
		resp := a.dial().call(req, v).(*kmsg.UpdateFeaturesResponse)
		failed := resp.ErrorCode != 0
		for _, r := range resp.Results {
			failed = failed || r.ErrorCode != 0
		}
		if !failed {
			t.Errorf("v%d: an unknown feature was finalized: %+v", v, resp)
		}
	}
}

func TestUnregisterUnknownBroker(t *testing.T) {
	a := newAPI(t)
	for _, v := range versions(t, protocol.KeyUnregisterBroker) {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = 77
		if resp := a.dial().call(req, v).(*kmsg.UnregisterBrokerResponse); resp.ErrorCode != protocol.CodeBrokerIDNotRegistered {
			t.Errorf("v%d: %+v", v, resp)
		}
	}
}

func TestVotersOfOne(t *testing.T) {
	a := newAPI(t)
	if a.kafka() {
		t.Skip("Apache Kafka's answer depends on how its quorum was formatted")
	}
	for _, v := range versions(t, protocol.KeyAddRaftVoter) {
		req := kmsg.NewPtrAddRaftVoterRequest()
		req.VoterID, req.TimeoutMillis = 1, 1000
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = "CONTROLLER", "127.0.0.1", 1
		req.Listeners = append(req.Listeners, l)
		if resp := a.dial().call(req, v).(*kmsg.AddRaftVoterResponse); resp.ErrorCode == 0 {
			t.Errorf("v%d: a voter was added twice: %+v", v, resp)
		}
	}
	for _, v := range versions(t, protocol.KeyRemoveRaftVoter) {
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.VoterID = 77
		if resp := a.dial().call(req, v).(*kmsg.RemoveRaftVoterResponse); resp.ErrorCode == 0 {
			t.Errorf("v%d: a voter that is none was removed: %+v", v, resp)
		}
	}
}
