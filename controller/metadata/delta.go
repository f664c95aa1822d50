package metadata

import "github.com/tidemark/tidemark/internal/model"

// Delta is what an Edit changed, for those who follow the image.
type Delta struct {
	// From and To are the offsets of the two images.
	From, To model.OffsetAndEpoch
	// Snapshot: the new image was read from a snapshot, not grown from records.
	// What is absent from it was not necessarily removed: a replica that is not
	// in it is stray, never to be deleted.
	Snapshot bool
	// Topics that were created, removed or changed, sorted by name; a topic
	// that was removed and created again under its name appears twice, the
	// removed one first.
	Topics []TopicDelta
	// Configs are the resources whose settings changed, in order.
	Configs []Resource
	// Brokers whose registration changed or went, sorted.
	Brokers []model.BrokerID
	// Features, ProducerIDs and Voters say whether these changed.
	Features, ProducerIDs, Voters bool
}

// Empty reports whether nothing but the offset changed.
func (d *Delta) Empty() bool {
	return !d.Snapshot && len(d.Topics)+len(d.Configs)+len(d.Brokers) == 0 &&
		!d.Features && !d.ProducerIDs && !d.Voters
}

// TopicDelta is the change of one topic.
type TopicDelta struct {
	// Old is the topic before, nil if it was created; New is the topic after,
	// nil if it was removed by a RemoveTopic record.
	Old, New *Topic
	// Partitions of New that were added or changed, rising.
	Partitions []int32
}
