package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// ApiVersions (18), versions 0-4.
//
// What is served on this listener, and the cluster's features (KIP-35, KIP-511,
// KIP-584). A version we don't know is answered by the connection itself.
func (b *Broker) handleAPIVersions(r *server.Request) {
	req := r.Msg.(*kmsg.ApiVersionsRequest)
	if code := protocol.CheckClientSoftware(req); code != protocol.CodeNone {
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		resp.ErrorCode = code
		r.Reply(resp)
		return
	}
	scope := protocol.OnBroker
	if b.config.IsController(r.Listener) {
		scope = protocol.OnController
	} else {
		told(r.Conn).software = software{name: short(req.ClientSoftwareName), version: short(req.ClientSoftwareVersion), known: req.Version >= 3}
	}
	r.Reply(protocol.NewApiVersionsResponse(req.Version, scope, b.features()))
}

// features returns what this node supports and what the cluster has finalized.
func (b *Broker) features() protocol.Features {
	img := b.quorum.Image()
	f := protocol.Features{Epoch: int64(img.At().Offset), Telemetry: b.config.Telemetry.Advertised}
	for _, s := range supportedFeatures {
		f.Supported = append(f.Supported, protocol.Feature{Name: s.Name, Min: s.Min, Max: s.Max})
	}
	for _, s := range img.Features() {
		f.Finalized = append(f.Finalized, protocol.Feature{Name: s.Name, Min: s.Level, Max: s.Level})
	}
	return f
}
