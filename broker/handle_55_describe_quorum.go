package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/controller/quorum"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
	"github.com/tidemark/tidemark/protocol/transport"
)

// DescribeQuorum (55), versions 0-2.
//
// The state of the metadata quorum as its leader sees it (KIP-595, KIP-836,
// KIP-853). The only partition that has a quorum is __cluster_metadata-0; any
// other is UNKNOWN_TOPIC_OR_PARTITION. A broker passes the question on to the
// quorum's leader (KIP-836); a controller that does not lead answers
// NOT_LEADER_OR_FOLLOWER, as does a broker that knows of no leader.
func (b *Broker) handleDescribeQuorum(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeQuorumRequest)
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	d := b.quorum.Describe()
	if !d.Active {
		resp.ErrorCode = protocol.CodeNotLeaderOrFollower
		if at, ok := b.controllerAddress(d.Leader); ok && d.Leader != b.config.NodeID && !b.config.IsController(r.Listener) {
			if p := b.peers.get(at, transport.ClassForward); p != nil {
				p.Send(transport.Request{Msg: req, Done: &quorumQuestion{r, resp}})
				return
			}
		}
		r.Reply(resp)
		return
	}
	for i := range req.Topics {
		rt := kmsg.NewDescribeQuorumResponseTopic()
		rt.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			rt.Partitions = append(rt.Partitions, b.describeQuorum(d, rt.Topic, p.Partition))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	for i := range d.Voters {
		n := kmsg.NewDescribeQuorumResponseNode()
		n.NodeID = int32(d.Voters[i].Node)
		for _, l := range d.Voters[i].Listeners {
			rl := kmsg.NewDescribeQuorumResponseNodeListener()
			rl.Name, rl.Host, rl.Port = l.Name, l.Host, l.Port
			n.Listeners = append(n.Listeners, rl)
		}
		resp.Nodes = append(resp.Nodes, n)
	}
	r.Reply(resp)
}

// quorumQuestion is a DescribeQuorum request that the quorum's leader answers.
type quorumQuestion struct {
	r    *server.Request
	none *kmsg.DescribeQuorumResponse // if it doesn't
}

// Received implements transport.Receiver.
func (q *quorumQuestion) Received(a transport.Answer) {
	if a.Err != nil {
		q.r.Reply(q.none)
		return
	}
	q.r.Reply(a.Msg)
	a.Release()
}

func (b *Broker) describeQuorum(d *quorum.Description, topic string, partition int32) kmsg.DescribeQuorumResponseTopicPartition {
	rp := kmsg.NewDescribeQuorumResponseTopicPartition()
	rp.Partition = partition
	if topic != quorum.TopicName || partition != 0 {
		rp.ErrorCode, rp.LeaderID = protocol.CodeUnknownTopicOrPartition, int32(model.NoLeader)
		return rp
	}
	rp.LeaderID, rp.LeaderEpoch, rp.HighWatermark = int32(d.Leader), int32(d.Epoch), int64(d.HighWatermark)
	rp.CurrentVoters, rp.Observers = quorumReplicas(d.Voters), quorumReplicas(d.Observers)
	return rp
}

func quorumReplicas(rs []quorum.ReplicaState) []kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	out := make([]kmsg.DescribeQuorumResponseTopicPartitionReplicaState, len(rs))
	for i, s := range rs {
		out[i].Default()
		out[i].ReplicaID, out[i].ReplicaDirectoryID = int32(s.Node), s.Directory
		out[i].LogEndOffset = int64(s.LogEndOffset)
		out[i].LastFetchTimestamp, out[i].LastCaughtUpTimestamp = int64(s.LastFetch), int64(s.LastCaughtUp)
	}
	return out
}
