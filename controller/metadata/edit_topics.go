package metadata

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark/tidemark/internal/model"
)

func (e *Edit) createTopic(r *TopicRecord) string {
	switch {
	case r.Name == "" || r.ID == model.NoTopicID:
		return "empty name or id"
	case e.next.Topic(r.Name) != nil:
		return fmt.Sprintf("topic %q exists", r.Name)
	case e.next.TopicByID(r.ID) != nil:
		return fmt.Sprintf("topic id %s exists", r.ID)
	}
	t := &Topic{ID: r.ID, Name: r.Name}
	e.topics[r.ID] = &topicEdit{topic: t}
	e.store(t)
	e.swap(nil, r)
	return ""
}

// store puts t under its name and its id.
func (e *Edit) store(t *Topic) {
	e.next.byName.put(e.owner, t.Name, t)
	e.next.byID.put(e.owner, t.ID, t)
}

// editTopic returns the edit of a topic that exists, or nil. The first call
// copies the topic and its partition list; the partitions are shared.
func (e *Edit) editTopic(id model.TopicID) *topicEdit {
	if t := e.topics[id]; t != nil {
		return t
	}
	old := e.next.TopicByID(id)
	if old == nil {
		return nil
	}
	t := &Topic{ID: old.ID, Name: old.Name, Partitions: grown(old.Partitions)}
	e.store(t)
	e.topics[id] = &topicEdit{old: old, topic: t}
	return e.topics[id]
}

func (e *Edit) createPartition(r *PartitionRecord) string {
	t := e.editTopic(r.TopicID)
	if t == nil {
		return fmt.Sprintf("no topic %s", r.TopicID)
	}
	if int(r.Partition) != len(t.topic.Partitions) {
		return fmt.Sprintf("partition %d of %q, which has %d", r.Partition, t.topic.Name, len(t.topic.Partitions))
	}
	p := r.PartitionRegistration
	if why := p.check(); why != "" {
		return fmt.Sprintf("%s-%d: %s", t.topic.Name, r.Partition, why)
	}
	t.topic.Partitions = append(t.topic.Partitions, nil)
	e.next.partitions++
	e.setPartition(t, r.Partition, &p)
	return ""
}

func (e *Edit) changePartition(r *PartitionChange) string {
	t := e.editTopic(r.TopicID)
	if t == nil {
		return fmt.Sprintf("no topic %s", r.TopicID)
	}
	old := t.topic.Partition(r.Partition)
	if old == nil {
		return fmt.Sprintf("no partition %d of %q", r.Partition, t.topic.Name)
	}
	p := old.merge(r)
	if why := p.check(); why != "" {
		return fmt.Sprintf("%s-%d: %s", t.topic.Name, r.Partition, why)
	}
	e.setPartition(t, r.Partition, p)
	return ""
}

// setPartition stores p, which nobody else holds yet, and accounts for it.
func (e *Edit) setPartition(t *topicEdit, n int32, p *PartitionRegistration) {
	old := t.topic.Partitions[n]
	if old != nil {
		e.next.sum.sub(old.sum)
	}
	e.count(old, p)
	e.rejoined(t.topic.ID, n, old, p)
	e.element = PartitionRecord{TopicID: t.topic.ID, Partition: n, PartitionRegistration: *p}
	p.sum = e.coder.digest(&e.element)
	e.next.sum.add(p.sum)
	t.topic.Partitions[n] = p
	t.changed = append(t.changed, n)
}

func (e *Edit) removeTopic(r *RemoveTopic) string {
	t := e.editTopic(r.ID)
	if t == nil {
		return fmt.Sprintf("no topic %s", r.ID)
	}
	delete(e.topics, r.ID)
	if t.old != nil { // else it came and went within the edit
		e.removed = append(e.removed, t.old)
	}
	e.next.byName.remove(e.owner, t.topic.Name)
	e.next.byID.remove(e.owner, r.ID)
	e.next.partitions -= len(t.topic.Partitions)
	for n, p := range t.topic.Partitions {
		e.next.sum.sub(p.sum)
		e.count(p, nil)
		e.forgetEnds(t.topic.ID, int32(n), p.Replicas)
	}
	e.swap(&TopicRecord{Name: t.topic.Name, ID: r.ID}, nil)
	e.dropConfigs(Resource{Type: TopicResource, Name: t.topic.Name})
	return ""
}

// dropConfigs forgets every setting of a resource that goes away.
func (e *Edit) dropConfigs(res Resource) {
	settings, ok := e.next.configs.get(res)
	if !ok {
		return
	}
	for k, v := range settings { // order-free: a sum
		e.swap(&ConfigRecord{Resource: res, Key: k, Value: &v}, nil)
	}
	e.next.configs.remove(e.owner, res)
	e.configs[res] = true
}

func (e *Edit) config(r *ConfigRecord) string {
	switch {
	case !r.Type.settable():
		return fmt.Sprintf("resource type %d", r.Type)
	case r.Key == "":
		return "empty setting name"
	case r.Type == TopicResource && e.next.Topic(r.Name) == nil:
		return fmt.Sprintf("no topic %q", r.Name)
	}
	settings, _ := e.next.configs.get(r.Resource)
	if old, ok := settings[r.Key]; ok {
		e.swap(&ConfigRecord{Resource: r.Resource, Key: r.Key, Value: &old}, nil)
	}
	settings = maps.Clone(settings)
	if r.Value == nil {
		delete(settings, r.Key)
	} else {
		if settings == nil {
			settings = map[string]string{}
		}
		settings[r.Key] = *r.Value
		e.swap(nil, r)
	}
	if len(settings) == 0 {
		e.next.configs.remove(e.owner, r.Resource)
	} else {
		e.next.configs.put(e.owner, r.Resource, settings)
	}
	e.configs[r.Resource] = true
	return ""
}

// assignedTo calls fn for every partition that b is assigned to. fn may change
// the partition it is called for.
func (e *Edit) assignedTo(b model.BrokerID, fn func(t *Topic, n int32, p *PartitionRegistration) string) string {
	// The names first: fn changes the table that is being read.
	topics := make([]*Topic, 0, e.next.byName.size)
	for t := range e.next.Topics() {
		topics = append(topics, t)
	}
	for _, t := range topics {
		for n, p := range slices.All(t.Partitions) {
			if !p.HasReplica(b) {
				continue
			}
			if why := fn(t, int32(n), p); why != "" {
				return why
			}
		}
	}
	return ""
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
