package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol/server"
)

// DescribeLogDirs (35), versions 1-4.
//
// What each log directory holds and, from version 4, how much room its disk has
// (KIP-113, KIP-827). A null topic list asks for everything. A directory that is
// offline has KAFKA_STORAGE_ERROR; a partition that is offline is left out, as
// its size is not known, but for a damaged one that can be read below the damage: its
// offset lag is how many offsets there were from there on.
func (b *Broker) handleDescribeLogDirs(r *server.Request) {
	req := r.Msg.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	var want func(model.TopicPartition) bool
	if req.Topics != nil {
		want = func(tp model.TopicPartition) bool { return names(req, tp) }
	}
	for _, d := range b.replicas.DescribeDirs(want) {
		resp.Dirs = append(resp.Dirs, describedDir(&d))
	}
	r.Reply(resp)
}

func names(req *kmsg.DescribeLogDirsRequest, tp model.TopicPartition) bool {
	return slices.ContainsFunc(req.Topics, func(t kmsg.DescribeLogDirsRequestTopic) bool {
		return t.Topic == tp.Topic && slices.Contains(t.Partitions, tp.Partition)
	})
}

func describedDir(d *host.DirInfo) kmsg.DescribeLogDirsResponseDir {
	rd := kmsg.NewDescribeLogDirsResponseDir()
	rd.Dir, rd.ErrorCode, rd.TotalBytes, rd.UsableBytes = d.Path, d.Code, d.TotalBytes, d.UsableBytes
	for i := range d.Replicas {
		// Replicas come sorted by topic.
		ri := &d.Replicas[i]
		if n := len(rd.Topics); n == 0 || rd.Topics[n-1].Topic != ri.Partition.Topic {
			rt := kmsg.NewDescribeLogDirsResponseDirTopic()
			rt.Topic = ri.Partition.Topic
			rd.Topics = append(rd.Topics, rt)
		}
		rp := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		rp.Partition, rp.Size, rp.OffsetLag = ri.Partition.Partition, ri.Size, ri.OffsetLag
		rt := &rd.Topics[len(rd.Topics)-1]
		rt.Partitions = append(rt.Partitions, rp)
	}
	return rd
}
