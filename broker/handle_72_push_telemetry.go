package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/broker/telemetry"
	"github.com/tidemark/tidemark/protocol/server"
)

// PushTelemetry (72), version 0.
//
// A client's metrics (KIP-714), which are counted and not kept. Refused are, in this
// order: an id that is none, or any push after the last one (INVALID_REQUEST), one
// before its time (THROTTLING_QUOTA_EXCEEDED), one for other subscriptions
// (UNKNOWN_SUBSCRIPTION_ID), an unknown codec (UNSUPPORTED_COMPRESSION_TYPE), and
// more than telemetry.max.bytes (TELEMETRY_TOO_LARGE).
func (b *Broker) handlePushTelemetry(r *server.Request) {
	req := r.Msg.(*kmsg.PushTelemetryRequest)
	resp := req.ResponseKind().(*kmsg.PushTelemetryResponse)
	resp.ErrorCode = b.telemetry.push(r, telemetry.Push{
		Instance: req.ClientInstanceID, ID: req.SubscriptionID, Terminating: req.Terminating,
		Codec: req.CompressionType, Bytes: len(req.Metrics),
	})
	r.Reply(resp)
}
