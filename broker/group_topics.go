package broker

import (
	"iter"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/coordinator/group/assign"
	"github.com/tidemark/tidemark/internal/model"
)

// groupTopics is an image as the coordinators of consumer groups see it. It
// implements consumer.Topics.
type groupTopics struct {
	img     *metadata.Image
	version int64
}

// next is the view of the image that follows. Its version is another one only if
// topics were made, deleted or grown: most images differ in leaders.
func (t *groupTopics) next(img *metadata.Image, d *metadata.Delta) *groupTopics {
	n := &groupTopics{img: img, version: t.version}
	changed := d == nil || d.Snapshot
	if d != nil {
		for i := range d.Topics {
			td := &d.Topics[i]
			changed = changed || td.Old == nil || td.New == nil || len(td.Old.Partitions) != len(td.New.Partitions)
		}
	}
	if changed {
		n.version++
	}
	return n
}

// Version implements consumer.Topics.
func (t *groupTopics) Version() int64 { return t.version }

// Topic implements consumer.Topics.
func (t *groupTopics) Topic(name string) (assign.Topic, bool) {
	topic := t.img.Topic(name)
	if topic == nil {
		return assign.Topic{}, false
	}
	return assign.Topic{ID: topic.ID, Partitions: int32(len(topic.Partitions))}, true
}

// Name implements consumer.Topics.
func (t *groupTopics) Name(id model.TopicID) (string, bool) {
	topic := t.img.TopicByID(id)
	if topic == nil {
		return "", false
	}
	return topic.Name, true
}

// Names implements consumer.Topics.
func (t *groupTopics) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for topic := range t.img.Topics() {
			if !yield(topic.Name) {
				return
			}
		}
	}
}
