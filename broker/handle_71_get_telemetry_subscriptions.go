package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/server"
)

// GetTelemetrySubscriptions (71), version 0.
//
// Which of its metrics a client is to push, and how often (KIP-714). A request
// before the push interval is over is THROTTLING_QUOTA_EXCEEDED, unless the
// subscriptions have changed or the last push was refused for its subscription or
// its codec.
func (b *Broker) handleGetTelemetrySubscriptions(r *server.Request) {
	req := r.Msg.(*kmsg.GetTelemetrySubscriptionsRequest)
	resp := req.ResponseKind().(*kmsg.GetTelemetrySubscriptionsResponse)
	s, code := b.telemetry.get(r, req.ClientInstanceID)
	if resp.ErrorCode = code; code == protocol.CodeNone {
		resp.ClientInstanceID, resp.SubscriptionID = s.Instance, s.ID
		resp.RequestedMetrics, resp.PushIntervalMillis = s.Metrics, int32(s.Interval.Milliseconds())
		for _, c := range []compress.Codec{compress.Zstd, compress.LZ4, compress.Gzip, compress.Snappy} { // best first
			resp.AcceptedCompressionTypes = append(resp.AcceptedCompressionTypes, int8(c))
		}
		resp.TelemetryMaxBytes, resp.DeltaTemporality = b.config.Telemetry.BytesMax, true
	}
	r.Reply(resp)
}
