package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// The endpoint types: what a listener describes.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// DescribeCluster (60), versions 0-2.
//
// The cluster id and its brokers; fenced ones only if asked for (v2). On a
// controller's listener it is the voters of the quorum instead (KIP-919). Asking
// a listener for the other kind is MISMATCHED_ENDPOINT_TYPE, for any other
// endpoint type UNSUPPORTED_ENDPOINT_TYPE.
func (b *Broker) handleDescribeCluster(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	ours := int8(endpointBrokers)
	if b.config.IsController(r.Listener) {
		ours = endpointControllers
	}
	if req.Version >= 1 && req.EndpointType != ours {
		resp.ErrorCode = protocol.CodeUnsupportedEndpointType
		why := "the endpoint type is neither brokers (1) nor controllers (2)"
		if req.EndpointType == endpointBrokers || req.EndpointType == endpointControllers {
			resp.ErrorCode, why = protocol.CodeMismatchedEndpointType, "this listener is not of the kind of endpoint asked for"
		}
		resp.ErrorMessage = &why
		r.Reply(resp)
		return
	}
	img := b.quorum.Image()
	resp.EndpointType = ours
	resp.ClusterID = img.ClusterID()
	resp.ControllerID = int32(model.NoLeader)
	resp.ClusterAuthorizedOperations = operations(req.IncludeClusterAuthorizedOperations, clusterOperations)
	if ours == endpointControllers {
		b.describeControllers(img, resp)
		r.Reply(resp)
		return
	}
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

// describeControllers lists the voters, and the active one as far as it is known.
func (b *Broker) describeControllers(img *metadata.Image, resp *kmsg.DescribeClusterResponse) {
	resp.ControllerID = int32(b.quorum.Describe().Leader)
	for _, v := range img.Voters() {
		at, ok := b.controllerAddress(v.Node)
		if !ok {
			continue
		}
		rb := kmsg.NewDescribeClusterResponseBroker()
		rb.NodeID, rb.Host, rb.Port = int32(v.Node), at.Host, int32(at.Port)
		resp.Brokers = append(resp.Brokers, rb)
	}
}
