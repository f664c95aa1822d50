package host

import (
	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/partition"
)

// DirInfo is one log directory as DescribeLogDirs shows it. Source: KIP-113,
// KIP-827.
type DirInfo struct {
	Path string
	// Code is 0, or KAFKA_STORAGE_ERROR while the directory is offline.
	Code Code
	// TotalBytes and UsableBytes are those of the file system, -1 if unknown.
	TotalBytes, UsableBytes int64
	Replicas                []ReplicaInfo
}

// ReplicaInfo is one replica in a directory.
type ReplicaInfo struct {
	Partition model.TopicPartition
	// Size is the bytes of the log's segments.
	Size int64
	// OffsetLag is how far the log end is behind the high watermark; Kafka counts
	// max(0, high watermark - log end), which is 0 but while a replica is behind. Of a
	// damaged log it is how many offsets there were from the damage on.
	OffsetLag int64
}

// DescribeDirs returns every log directory with the replicas that want accepts;
// nil accepts all. It asks the file systems, so it is not called in a loop.
func (m *ReplicaManager) DescribeDirs(want func(model.TopicPartition) bool) []DirInfo {
	all := m.All()
	var infos []DirInfo
	for _, d := range m.deps.Dirs.All() {
		info := DirInfo{Path: d.path, TotalBytes: -1, UsableBytes: -1}
		if !d.Online() {
			info.Code = partition.CodeStorageError
			infos = append(infos, info)
			continue
		}
		if usable, total, err := d.fs.Free(d.path); err == nil {
			info.UsableBytes, info.TotalBytes = usable, total
		}
		for _, h := range all {
			if h.dir != d || (want != nil && !want(h.tp)) {
				continue
			}
			s := h.State()
			if r := h.remnant.Load(); s.View == nil && r != nil {
				info.Replicas = append(info.Replicas, ReplicaInfo{
					Partition: h.tp, Size: r.Bytes, OffsetLag: max(0, int64(h.endBehind(r)-r.View.End())),
				})
				continue
			}
			if s.View == nil {
				continue
			}
			info.Replicas = append(info.Replicas, ReplicaInfo{
				Partition: h.tp, Size: s.View.Size(),
				OffsetLag: max(0, int64(s.HighWatermark.Sub(s.LogEnd))),
			})
		}
		infos = append(infos, info)
	}
	return infos
}

// Failed is a replica that can't be served, and why.
type Failed struct {
	ID        model.TopicIDPartition
	Partition model.TopicPartition
	Reason    string
	// Readable is below which offset it can still be read, model.NoOffset if it can't.
	Readable model.Offset
	// Heard is the last leader epoch in which it may have fetched, if it is to be filled
	// anew: that waits for a later one. model.NoEpoch if nothing has to be waited for.
	Heard model.LeaderEpoch
	// Serves: it is read, since nobody else has a better copy. What follows is valid
	// then.
	Serves bool
	Start  model.Offset
	End    model.Offset
}

// FailedReplicas returns the replicas that are offline or lost, for the
// registration: the controller takes them out of ISR and ELR.
func (m *ReplicaManager) FailedReplicas() []Failed {
	var failed []Failed
	for _, h := range m.All() {
		s := h.State()
		if s.Role != partition.Offline || s.Code != partition.CodeStorageError || h.looking.Load() && h.alone.Load() {
			continue // where it is the last one, it is told what is left of it
		}
		f := Failed{ID: h.id, Partition: h.tp, Reason: s.Reason, Readable: model.NoOffset, Heard: model.NoEpoch}
		if h.spoilt() {
			f.Heard = model.LeaderEpoch(h.heard.Load())
		}
		if r := h.remnant.Load(); r != nil {
			f.Readable = r.View.End()
		}
		if s.Remnant != nil {
			f.Serves, f.Start, f.End = true, s.Remnant.Start, s.Remnant.End
		}
		failed = append(failed, f)
	}
	return failed
}
