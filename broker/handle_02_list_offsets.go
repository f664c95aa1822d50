package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// ListOffsets (2), versions 1-11.
//
// Offsets by time or by end. Found nothing is no error but offset and timestamp
// -1. A special timestamp that the version does not know, or an unknown one, is
// UNSUPPORTED_VERSION; a partition named twice is INVALID_REQUEST. Right after
// an election, while the high watermark has not reached the start of the
// leader's epoch, the latest offset is not known: OFFSET_NOT_AVAILABLE, before
// version 5 LEADER_NOT_AVAILABLE (KIP-207). Of a damaged partition that has no better
// copy the latest offset is where the damage begins; a time of which nothing is found
// below it is KAFKA_STORAGE_ERROR.
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
			h, code := b.hosted(img, rt.Topic, q.Partition)
			switch {
			case seen[model.TopicPartition{Topic: rt.Topic, Partition: q.Partition}] > 1:
				rp.ErrorCode = protocol.CodeInvalidRequest
			case h == nil:
				rp.ErrorCode = code
			default:
				listOffset(h.State(), req, q, &rp)
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

// listOffset answers for one partition.
func listOffset(s *host.State, req *kmsg.ListOffsetsRequest, q *kmsg.ListOffsetsRequestTopicPartition, rp *kmsg.ListOffsetsResponseTopicPartition) {
	found := s.ListOffsets(host.ListOffsetsQuery{
		Timestamp: model.Timestamp(q.Timestamp), CurrentEpoch: model.LeaderEpoch(q.CurrentLeaderEpoch),
		Replica: model.BrokerID(req.ReplicaID), Isolation: host.Isolation(req.IsolationLevel), Version: req.Version,
	})
	rp.ErrorCode, rp.Offset, rp.Timestamp, rp.LeaderEpoch = found.Code, int64(found.Offset), int64(found.Timestamp), int32(found.LeaderEpoch)
}
