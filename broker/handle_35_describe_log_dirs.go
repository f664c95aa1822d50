package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/server"
)

// DescribeLogDirs (35), versions 1-4.
//
// What each log directory holds and, from version 4, how much room its disk has
// (KIP-113, KIP-827). A null topic list asks for everything. A directory that is
// offline has KAFKA_STORAGE_ERROR; a partition that is offline is left out, as
// its size is not known.
func (b *Broker) handleDescribeLogDirs(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	wanted := wantedPartitions(req)
	all := b.replicas.All()
	for _, d := range b.dirs.All() {
		rd := kmsg.NewDescribeLogDirsResponseDir()
		rd.Dir, rd.TotalBytes, rd.UsableBytes = d.Path(), -1, -1
		if !d.Online() {
			rd.ErrorCode = protocol.CodeKafkaStorageError
			resp.Dirs = append(resp.Dirs, rd)
			continue
		}
		if available, total, err := b.fs.Free(d.Path()); err == nil {
			rd.TotalBytes, rd.UsableBytes = total, available
		}
		for _, h := range all {
			if h.Dir() == d.Path() && wanted(h) {
				addLogDirPartition(&rd, h)
			}
		}
		resp.Dirs = append(resp.Dirs, rd)
	}
	r.Reply(resp)
}

func wantedPartitions(req *kmsg.DescribeLogDirsRequest) func(*host.Hosted) bool {
	if req.Topics == nil {
		return func(*host.Hosted) bool { return true }
	}
	return func(h *host.Hosted) bool {
		tp := h.TopicPartition()
		return slices.ContainsFunc(req.Topics, func(t kmsg.DescribeLogDirsRequestTopic) bool {
			return t.Topic == tp.Topic && slices.Contains(t.Partitions, tp.Partition)
		})
	}
}

// addLogDirPartition appends to the last topic of rd or begins another:
// partitions come sorted by topic.
func addLogDirPartition(rd *kmsg.DescribeLogDirsResponseDir, h *host.Hosted) {
	s, tp := h.State(), h.TopicPartition()
	if s.View == nil {
		return
	}
	if n := len(rd.Topics); n == 0 || rd.Topics[n-1].Topic != tp.Topic {
		rt := kmsg.NewDescribeLogDirsResponseDirTopic()
		rt.Topic = tp.Topic
		rd.Topics = append(rd.Topics, rt)
	}
	rp := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
	rp.Partition, rp.Size = tp.Partition, s.View.Size()
	rp.OffsetLag = max(int64(s.HighWatermark-s.LogEnd), 0)
	rt := &rd.Topics[len(rd.Topics)-1]
	rt.Partitions = append(rt.Partitions, rp)
}
