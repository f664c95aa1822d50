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
	protocol.KeyFindCoordinator:         (*Broker).handleFindCoordinator,
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
	protocol.KeyIncrementalAlterConfigs: (*Broker).handleForward,
	protocol.KeyDescribeQuorum:          (*Broker).handleDescribeQuorum,
	protocol.KeyDescribeCluster:         (*Broker).handleDescribeCluster,
	protocol.KeyDescribeProducers:       (*Broker).handleDescribeProducers,
	protocol.KeyDescribeTopicPartitions: (*Broker).handleDescribeTopicPartitions,
}

// Handle implements server.Handler.
func (b *Broker) Handle(r *server.Request) {
	if k := int(r.Header.Key); k >= 0 && k < len(handlers) && handlers[k] != nil {
		handlers[k](b, r)
		return
	}
	r.CloseConn("no handler for this API on this listener")
}
