package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// OffsetForLeaderEpoch (23), versions 2-4.
//
// Where a leader epoch ends in this log: how a client finds out that what it
// has read was truncated (KIP-320), and a follower where its log parts from the
// leader's (KIP-101, KIP-279). Only the leader answers. An epoch that is unknown
// is not an error: epoch and offset are -1. Of a damaged partition that has no better
// copy it is KAFKA_STORAGE_ERROR, and so is everything for a follower.
func (b *Broker) handleOffsetForLeaderEpoch(r *server.Request) {
	req := r.Msg.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	img := b.quorum.Image()
	for i := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			q := &req.Topics[i].Partitions[j]
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition = q.Partition
			h, code := b.hosted(img, rt.Topic, q.Partition)
			end := model.OffsetAndEpoch{Offset: model.NoOffset, Epoch: model.NoEpoch}
			if h != nil && h.State().Remnant != nil && req.ReplicaID >= 0 {
				code = protocol.CodeKafkaStorageError // no replica may become complete from a damaged one
			} else if h != nil {
				end, code = h.State().EndOffsetForEpoch(model.LeaderEpoch(q.LeaderEpoch), model.LeaderEpoch(q.CurrentLeaderEpoch))
			}
			rp.ErrorCode, rp.LeaderEpoch, rp.EndOffset = code, int32(end.Epoch), int64(end.Offset)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	r.Reply(resp)
}

// hosted finds a partition by its topic's name; if it is not here, the code says
// whether it exists at all.
func (b *Broker) hosted(img *metadata.Image, name string, partition int32) (*host.Hosted, protocol.Code) {
	t := img.Topic(name)
	if t == nil || t.Partition(partition) == nil {
		return nil, protocol.CodeUnknownTopicOrPartition
	}
	if h := b.replicas.GetByID(model.TopicIDPartition{TopicID: t.ID, Partition: partition}); h != nil {
		return h, protocol.CodeNone
	}
	return nil, protocol.CodeNotLeaderOrFollower
}
