package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// endpointBrokers is the only endpoint type that a broker listener describes.
const endpointBrokers = 1

// DescribeCluster (60), versions 0-2.
//
// The cluster id and its brokers; fenced ones only if asked for (v2). Asking a
// broker listener for controllers is MISMATCHED_ENDPOINT_TYPE (KIP-919), any
// other endpoint type UNSUPPORTED_ENDPOINT_TYPE.
func (b *Broker) handleDescribeCluster(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	if req.Version >= 1 && req.EndpointType != endpointBrokers {
		resp.ErrorCode = protocol.CodeUnsupportedEndpointType
		why := "the endpoint type is neither brokers (1) nor controllers (2)"
		if req.EndpointType == 2 {
			resp.ErrorCode, why = protocol.CodeMismatchedEndpointType, "this listener belongs to a broker, not to a controller"
		}
		resp.ErrorMessage = &why
		r.Reply(resp)
		return
	}
	img := b.quorum.Image()
	resp.EndpointType = endpointBrokers
	resp.ClusterID = img.ClusterID()
	resp.ControllerID = int32(model.NoLeader)
	resp.ClusterAuthorizedOperations = operations(req.IncludeClusterAuthorizedOperations, clusterOperations)
	for _, reg := range img.Brokers() {
		l, ok := reg.Listener(r.Listener)
		if !ok || reg.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		rb := kmsg.NewDescribeClusterResponseBroker()
		rb.NodeID, rb.Host, rb.Port, rb.Rack, rb.IsFenced = int32(reg.ID), l.Host, int32(l.Port), rack(reg), reg.Fenced
		resp.Brokers = append(resp.Brokers, rb)
		if !reg.Fenced && (resp.ControllerID < 0 || reg.ID == b.config.NodeID) {
			resp.ControllerID = int32(reg.ID)
		}
	}
	r.Reply(resp)
}
