package rescue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
)

// offsetsTopic is where consumer groups keep their offsets. A group's partition
// is found by the number of partitions, so that it must stay what it was.
const (
	offsetsTopic           = "__consumer_offsets"
	offsetsTopicPartitions = 50 // Kafka's default
)

// choose makes topics of the replicas.
func (s *survey) choose() {
	ids := s.ids()
	for _, r := range s.all {
		if want := ids[r.Partition.Topic]; r.TopicID != want {
			s.leave(r.Dir, fmt.Sprintf("it is of topic id %v; the topic of this name has %v", r.TopicID, want))
			continue
		}
		if s.meta != nil && r.TopicID != model.NoTopicID && s.meta.topics[r.TopicID] == nil {
			s.leave(r.Dir, "its topic was deleted, as the metadata of the cluster say")
			continue
		}
		old, some := s.best[r.Partition]
		switch {
		case some && before(old, r):
			s.leave(old.Dir, fmt.Sprintf("it ends at %v; another replica at %v", old.Last, r.Last))
		case some:
			s.leave(r.Dir, fmt.Sprintf("it ends at %v; another replica at %v", r.Last, old.Last))
			continue
		}
		s.best[r.Partition] = r
	}
	topics := map[string]*Topic{}
	for tp, r := range s.best { // order-free: sorted below
		t := topics[tp.Topic]
		if t == nil {
			t = &Topic{Name: tp.Topic, ID: r.TopicID}
			topics[tp.Topic] = t
		}
		t.Replicas = append(t.Replicas, r)
		t.Partitions = max(t.Partitions, tp.Partition+1)
		s.plan.Bytes += r.Bytes
	}
	for _, t := range topics { // order-free: sorted below
		slices.SortFunc(t.Replicas, func(a, b Replica) int { return int(a.Partition.Partition) - int(b.Partition.Partition) })
		s.settings(t)
		s.plan.Topics = append(s.plan.Topics, *t)
	}
	slices.SortFunc(s.plan.Topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
}

// ids chooses the topic id of each name: what the metadata say, else that of the
// replica which knows most. A topic may have been deleted and made again while one
// of the brokers was down.
func (s *survey) ids() map[string]model.TopicID {
	best := map[string]Replica{}
	for _, r := range s.all {
		if old, some := best[r.Partition.Topic]; !some || before(old, r) {
			best[r.Partition.Topic] = r
		}
	}
	ids := make(map[string]model.TopicID, len(best))
	for name, r := range best { // order-free
		ids[name] = r.TopicID
		if s.meta == nil {
			continue
		}
		if id, t := s.meta.named(name); t != nil && r.TopicID != model.NoTopicID {
			ids[name] = id
		}
	}
	return ids
}

// settings finds out the number of partitions and the settings of a topic. Where
// nobody tells, nothing may be deleted for its age.
func (s *survey) settings(t *Topic) {
	if s.meta != nil {
		if k := s.meta.topics[t.ID]; k != nil {
			t.Partitions, t.Configs, t.Told = max(t.Partitions, k.partitions), k.configs, true
			return
		}
	}
	if t.Name == offsetsTopic {
		t.Partitions = max(t.Partitions, offsetsTopicPartitions)
		t.Configs = map[string]string{"cleanup.policy": "compact"}
		return
	}
	t.Configs = map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}
}
