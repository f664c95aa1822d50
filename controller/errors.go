package controller

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The error codes of the Kafka protocol that the controller answers with.
const (
	codeUnknownServerError          int16 = -1
	codeNone                        int16 = 0
	codeUnknownTopicOrPartition     int16 = 3
	codeRequestTimedOut             int16 = 7
	codeInvalidTopic                int16 = 17
	codeUnsupportedVersion          int16 = 35
	codeTopicExists                 int16 = 36
	codeInvalidPartitions           int16 = 37
	codeInvalidReplicationFactor    int16 = 38
	codeInvalidReplicaAssignment    int16 = 39
	codeInvalidConfig               int16 = 40
	codeNotController               int16 = 41
	codeInvalidRequest              int16 = 42
	codePolicyViolation             int16 = 44
	codeOperationNotAttempted       int16 = 55
	codeTopicDeletionDisabled       int16 = 73
	codeFencedLeaderEpoch           int16 = 74
	codeStaleBrokerEpoch            int16 = 77
	codePreferredLeaderNotAvailable int16 = 80
	codeEligibleLeadersNotAvailable int16 = 83
	codeElectionNotNeeded           int16 = 84
	codeNoReassignmentInProgress    int16 = 85
	codeInvalidUpdateVersion        int16 = 95
	codeUnknownTopicID              int16 = 100
	codeBrokerIDNotRegistered       int16 = 102
	codeInconsistentClusterID       int16 = 104
	codeIneligibleReplica           int16 = 107
	codeNewLeaderElected            int16 = 108
)

// apiError is a Kafka error code with its explanation. The zero value is no
// error.
type apiError struct {
	code    int16
	message string
}

func (e apiError) failed() bool { return e.code != codeNone }

// text returns the message as the protocol carries it.
func (e apiError) text() *string {
	if !e.failed() {
		return nil
	}
	return &e.message
}

// ErrorReply answers every item of req with one code, as a broker does when the
// command never reached a decision: no active controller, a deadline that
// passed, a proposal that was dropped. Requests outside Command get nil.
func ErrorReply(req kmsg.Request, code int16, message string) kmsg.Response {
	e := apiError{code, message}
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		return failCreateTopics(req, e)
	case *kmsg.DeleteTopicsRequest:
		return failDeleteTopics(req, e)
	case *kmsg.CreatePartitionsRequest:
		return failCreatePartitions(req, e)
	case *kmsg.AlterConfigsRequest:
		return failAlterConfigs(req, e)
	case *kmsg.IncrementalAlterConfigsRequest:
		return failIncrementalAlterConfigs(req, e)
	case *kmsg.AlterClientQuotasRequest:
		return failAlterClientQuotas(req, e)
	case *kmsg.ElectLeadersRequest:
		return failElectLeaders(req, e)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return failAlterAssignments(req, e)
	case *kmsg.UpdateFeaturesRequest:
		return updatedFeatures(req, e)
	case *kmsg.AlterPartitionRequest:
		r := req.ResponseKind().(*kmsg.AlterPartitionResponse)
		r.ErrorCode = code
		return r
	case *kmsg.BrokerRegistrationRequest:
		r := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
		r.ErrorCode, r.BrokerEpoch = code, -1
		return r
	case *kmsg.BrokerHeartbeatRequest:
		r := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
		r.ErrorCode, r.IsFenced = code, true
		return r
	case *kmsg.UnregisterBrokerRequest:
		r := req.ResponseKind().(*kmsg.UnregisterBrokerResponse)
		r.ErrorCode, r.ErrorMessage = code, e.text()
		return r
	case *kmsg.AllocateProducerIDsRequest:
		r := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
		r.ErrorCode = code
		return r
	}
	return nil
}

func failCreateTopics(req *kmsg.CreateTopicsRequest, e apiError) kmsg.Response {
	r := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for _, t := range req.Topics {
		r.Topics = append(r.Topics, createdTopic(t.Topic, e))
	}
	return r
}

func createdTopic(name string, e apiError) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.ErrorCode, t.ErrorMessage = name, e.code, e.text()
	t.NumPartitions, t.ReplicationFactor = -1, -1
	return t
}

func failDeleteTopics(req *kmsg.DeleteTopicsRequest, e apiError) kmsg.Response {
	r := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	for _, want := range deletions(req) {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode, t.ErrorMessage = want.Topic, want.TopicID, e.code, e.text()
		r.Topics = append(r.Topics, t)
	}
	return r
}

// deletions returns what req asks to delete in the form of version 6.
func deletions(req *kmsg.DeleteTopicsRequest) []kmsg.DeleteTopicsRequestTopic {
	if req.Version >= 6 || len(req.TopicNames) == 0 {
		return req.Topics
	}
	all := make([]kmsg.DeleteTopicsRequestTopic, len(req.TopicNames))
	for i := range all {
		all[i].Topic = &req.TopicNames[i]
	}
	return all
}

func failCreatePartitions(req *kmsg.CreatePartitionsRequest, e apiError) kmsg.Response {
	r := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	for _, t := range req.Topics {
		r.Topics = append(r.Topics, grownTopic(t.Topic, e))
	}
	return r
}

func grownTopic(name string, e apiError) kmsg.CreatePartitionsResponseTopic {
	t := kmsg.NewCreatePartitionsResponseTopic()
	t.Topic, t.ErrorCode, t.ErrorMessage = name, e.code, e.text()
	return t
}

func failAlterConfigs(req *kmsg.AlterConfigsRequest, e apiError) kmsg.Response {
	r := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for _, res := range req.Resources {
		a := kmsg.NewAlterConfigsResponseResource()
		a.ResourceType, a.ResourceName, a.ErrorCode, a.ErrorMessage = res.ResourceType, res.ResourceName, e.code, e.text()
		r.Resources = append(r.Resources, a)
	}
	return r
}

func failIncrementalAlterConfigs(req *kmsg.IncrementalAlterConfigsRequest, e apiError) kmsg.Response {
	r := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	for _, res := range req.Resources {
		a := kmsg.NewIncrementalAlterConfigsResponseResource()
		a.ResourceType, a.ResourceName, a.ErrorCode, a.ErrorMessage = res.ResourceType, res.ResourceName, e.code, e.text()
		r.Resources = append(r.Resources, a)
	}
	return r
}

func failElectLeaders(req *kmsg.ElectLeadersRequest, e apiError) kmsg.Response {
	r := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	r.ErrorCode = e.code
	for _, t := range req.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Topic
		for _, n := range t.Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = n, e.code, e.text()
			out.Partitions = append(out.Partitions, p)
		}
		r.Topics = append(r.Topics, out)
	}
	return r
}

func failAlterAssignments(req *kmsg.AlterPartitionAssignmentsRequest, e apiError) kmsg.Response {
	r := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	r.ErrorCode, r.ErrorMessage = e.code, e.text()
	for _, t := range req.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = t.Topic
		for _, in := range t.Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = in.Partition, e.code, e.text()
			out.Partitions = append(out.Partitions, p)
		}
		r.Topics = append(r.Topics, out)
	}
	return r
}
