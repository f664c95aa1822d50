package broker

import (
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// handler answers one request, now or later.
type handler func(b *Broker, r *server.Request)

// handlers holds each API's handler at the index of its key.
var handlers = [...]handler{
	protocol.KeyProduce:                 (*Broker).handleProduce,
	protocol.KeyFetch:                   (*Broker).handleFetch,
	protocol.KeyListOffsets:             (*Broker).handleListOffsets,
	protocol.KeyMetadata:                (*Broker).handleMetadata,
	protocol.KeyOffsetCommit:            (*Broker).handleOffsetCommit,
	protocol.KeyOffsetFetch:             (*Broker).handleOffsetFetch,
	protocol.KeyFindCoordinator:         (*Broker).handleFindCoordinator,
	protocol.KeyJoinGroup:               (*Broker).handleJoinGroup,
	protocol.KeyHeartbeat:               (*Broker).handleHeartbeat,
	protocol.KeyLeaveGroup:              (*Broker).handleLeaveGroup,
	protocol.KeySyncGroup:               (*Broker).handleSyncGroup,
	protocol.KeyDescribeGroups:          (*Broker).handleDescribeGroups,
	protocol.KeyListGroups:              (*Broker).handleListGroups,
	protocol.KeyApiVersions:             (*Broker).handleAPIVersions,
	protocol.KeyCreateTopics:            (*Broker).handleForward,
	protocol.KeyDeleteTopics:            (*Broker).handleForward,
	protocol.KeyDeleteRecords:           (*Broker).handleDeleteRecords,
	protocol.KeyInitProducerID:          (*Broker).handleInitProducerID,
	protocol.KeyOffsetForLeaderEpoch:    (*Broker).handleOffsetForLeaderEpoch,
	protocol.KeyDescribeConfigs:         (*Broker).handleDescribeConfigs,
	protocol.KeyAlterConfigs:            (*Broker).handleForward,
	protocol.KeyDescribeLogDirs:         (*Broker).handleDescribeLogDirs,
	protocol.KeyCreatePartitions:        (*Broker).handleForward,
	protocol.KeyDeleteGroups:            (*Broker).handleDeleteGroups,
	protocol.KeyElectLeaders:            (*Broker).handleForward,
	protocol.KeyIncrementalAlterConfigs: (*Broker).handleForward,
	protocol.KeyDescribeClientQuotas:    (*Broker).handleDescribeClientQuotas,
	protocol.KeyAlterClientQuotas:       (*Broker).handleForward,
	protocol.KeyDescribeUserScram:       (*Broker).handleDescribeUserScramCredentials,
	protocol.KeyAlterReassignments:      (*Broker).handleForward,
	protocol.KeyListReassignments:       (*Broker).handleListReassignments,
	protocol.KeyOffsetDelete:            (*Broker).handleOffsetDelete,
	protocol.KeyDescribeQuorum:          (*Broker).handleDescribeQuorum,
	protocol.KeyAlterPartition:          (*Broker).handleController,
	protocol.KeyUpdateFeatures:          (*Broker).handleForward,
	protocol.KeyDescribeCluster:         (*Broker).handleDescribeCluster,
	protocol.KeyDescribeProducers:       (*Broker).handleDescribeProducers,
	protocol.KeyBrokerRegistration:      (*Broker).handleController,
	protocol.KeyBrokerHeartbeat:         (*Broker).handleController,
	protocol.KeyUnregisterBroker:        (*Broker).handleForward,
	protocol.KeyAllocateProducerIDs:     (*Broker).handleController,
	protocol.KeyConsumerGroupHeartbeat:  (*Broker).handleConsumerGroupHeartbeat,
	protocol.KeyConsumerGroupDescribe:   (*Broker).handleConsumerGroupDescribe,
	protocol.KeyGetTelemetrySubs:        (*Broker).handleGetTelemetrySubscriptions,
	protocol.KeyPushTelemetry:           (*Broker).handlePushTelemetry,
	protocol.KeyListConfigResources:     (*Broker).handleListConfigResources,
	protocol.KeyDescribeTopicPartitions: (*Broker).handleDescribeTopicPartitions,
	protocol.KeyAddRaftVoter:            (*Broker).handleForward,
	protocol.KeyRemoveRaftVoter:         (*Broker).handleForward,
}

// Handle implements server.Handler.
func (b *Broker) Handle(r *server.Request) {
	if k := int(r.Header.Key); k >= 0 && k < len(handlers) && handlers[k] != nil {
		handlers[k](b, r)
		return
	}
	if r.Header.Key >= protocol.FirstPrivateKey && b.config.IsController(r.Listener) {
		b.handlePrivate(r)
		return
	}
	r.CloseConn("no handler for this API on this listener")
}
