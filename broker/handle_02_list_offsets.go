package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/log"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// The timestamps that ask for an end instead of a time, and since which version.
const (
	timestampLatest        = -1 // high watermark, or LSO for read_committed
	timestampEarliest      = -2 // log start
	timestampMax           = -3 // record with the greatest timestamp, v7 (KIP-734)
	timestampEarliestLocal = -4 // log start: nothing is tiered, v8 (KIP-405)
	timestampLatestTiered  = -5 // none: nothing is tiered, v9 (KIP-1005)
	timestampPendingUpload = -6 // none: nothing is tiered, v11 (KIP-1023)
)

// replicaDebug is the replica id of a tool that may read from any replica, up to
// the log end.
const replicaDebug = -2

// ListOffsets (2), versions 1-11.
//
// Offsets by time or by end. Found nothing is no error but offset and timestamp
// -1. A special timestamp that the version does not know, or an unknown one, is
// UNSUPPORTED_VERSION; a partition named twice is INVALID_REQUEST. Right after
// an election, while the high watermark has not reached the start of the
// leader's epoch, the latest offset is not known: OFFSET_NOT_AVAILABLE, before
// version 5 LEADER_NOT_AVAILABLE (KIP-207).
func (b *Broker) handleListOffsets(r *server.Request) {
	req := r.Msg.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	img, seen := b.quorum.Image(), countPartitions(req)
	for i := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			q := &req.Topics[i].Partitions[j]
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = q.Partition
			if seen[model.TopicPartition{Topic: rt.Topic, Partition: q.Partition}] > 1 {
				rp.ErrorCode = protocol.CodeInvalidRequest
			} else {
				b.listOffset(img, req, rt.Topic, q).fill(&rp)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	r.Reply(resp)
}

func countPartitions(req *kmsg.ListOffsetsRequest) map[model.TopicPartition]int {
	seen := make(map[model.TopicPartition]int)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			seen[model.TopicPartition{Topic: req.Topics[i].Topic, Partition: req.Topics[i].Partitions[j].Partition}]++
		}
	}
	return seen
}

// listedOffset is the answer for one partition.
type listedOffset struct {
	code      protocol.Code
	offset    model.Offset
	timestamp model.Timestamp
	epoch     model.LeaderEpoch
}

func (l listedOffset) fill(rp *kmsg.ListOffsetsResponseTopicPartition) {
	rp.ErrorCode, rp.Offset, rp.Timestamp, rp.LeaderEpoch = l.code, int64(l.offset), int64(l.timestamp), int32(l.epoch)
}

func noOffset(code protocol.Code) listedOffset {
	return listedOffset{code: code, offset: model.NoOffset, timestamp: model.NoTimestamp, epoch: model.NoEpoch}
}

func (b *Broker) listOffset(img *metadata.Image, req *kmsg.ListOffsetsRequest, topic string, q *kmsg.ListOffsetsRequestTopicPartition) listedOffset {
	if !timestampServed(q.Timestamp, req.Version) {
		return noOffset(protocol.CodeUnsupportedVersion)
	}
	h, code := b.hosted(img, topic, q.Partition)
	if h == nil {
		return noOffset(code)
	}
	s := h.State()
	if code := s.ReadCode(req.ReplicaID != replicaDebug, model.LeaderEpoch(q.CurrentLeaderEpoch)); code != protocol.CodeNone {
		return noOffset(code)
	}
	bound, lagging := s.LogEnd, false
	if req.ReplicaID == int32(model.NoLeader) {
		bound = s.Bound(host.BoundOf(host.Isolation(req.IsolationLevel)))
		lagging = s.EpochStart > s.HighWatermark
	}
	unavailable := protocol.CodeOffsetNotAvailable
	if req.Version < 5 {
		unavailable = protocol.CodeLeaderNotAvailable
	}
	switch q.Timestamp {
	case timestampEarliest, timestampEarliestLocal:
		return listedOffset{offset: s.LogStart, timestamp: model.NoTimestamp, epoch: s.EpochFor(s.LogStart)}
	case timestampLatestTiered, timestampPendingUpload:
		return noOffset(protocol.CodeNone)
	case timestampLatest:
		if lagging {
			return noOffset(unavailable)
		}
		return listedOffset{offset: bound, timestamp: model.NoTimestamp, epoch: s.LeaderEpoch}
	}
	found, ok, err := lookupTimestamp(s.View, model.Timestamp(q.Timestamp), bound)
	switch {
	case err != nil:
		return noOffset(protocol.CodeKafkaStorageError)
	case !ok && lagging:
		return noOffset(unavailable)
	case !ok:
		return noOffset(protocol.CodeNone)
	}
	return listedOffset{offset: found.Offset, timestamp: found.Timestamp, epoch: s.EpochFor(found.Offset)}
}

func lookupTimestamp(v *log.View, ts model.Timestamp, bound model.Offset) (log.TimestampOffset, bool, error) {
	if ts == timestampMax {
		return v.MaxTimestamp(bound)
	}
	return v.OffsetForTimestamp(ts, bound)
}

// timestampServed reports whether a timestamp means something in this version.
func timestampServed(ts int64, version int16) bool {
	switch ts {
	case timestampMax:
		return version >= 7
	case timestampEarliestLocal:
		return version >= 8
	case timestampLatestTiered:
		return version >= 9
	case timestampPendingUpload:
		return version >= 11
	}
	return ts >= timestampEarliest
}
