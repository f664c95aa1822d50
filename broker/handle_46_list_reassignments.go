package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller"
	"github.com/tidemark/tidemark/protocol/server"
)

// ListPartitionReassignments (46), version 0.
//
// The partitions whose replicas are being moved, as the metadata of this node has
// them (KIP-455). Null topics means all; what is asked for by name and is not
// being moved is left out.
func (b *Broker) handleListReassignments(r *server.Request) {
	r.Reply(controller.ListReassignments(b.quorum.Image(), r.Msg.(*kmsg.ListPartitionReassignmentsRequest)))
}
