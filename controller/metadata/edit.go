package metadata

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
)

// Edit builds the next image from one or more entries. What it has copied once
// it changes in place, so that n changes cost about n changes whatever the size
// of the image. It belongs to one goroutine and is spent after Done.
type Edit struct {
	base    *Image
	next    Image
	owner   *owner
	topics  map[model.TopicID]*topicEdit
	removed []*Topic // as they were before the edit
	brokers map[model.BrokerID]bool
	configs map[Resource]bool
	delta   Delta
	coder   coder           // for digests
	element PartitionRecord // likewise
}

// topicEdit is a topic that this edit has copied.
type topicEdit struct {
	old, topic *Topic
	changed    []int32 // any order, with repetitions
}

// ApplyError says which record of an entry did not fit the image.
type ApplyError struct {
	At     model.OffsetAndEpoch
	Record int // its position in the entry
	Kind   Kind
	Why    string
}

// Error implements error.
func (e *ApplyError) Error() string {
	return fmt.Sprintf("metadata entry %s, record %d of kind %d: %s", e.At, e.Record, e.Kind, e.Why)
}

// NewEdit starts an edit of base, which stays as it is.
func NewEdit(base *Image) *Edit {
	return &Edit{
		base:    base,
		next:    *base,
		owner:   new(owner),
		topics:  map[model.TopicID]*topicEdit{},
		brokers: map[model.BrokerID]bool{},
		configs: map[Resource]bool{},
		coder:   coder{writing: true},
	}
}

// Apply adds the records of the entry at this offset and term. On an error
// (always an *ApplyError) the edit is spoilt: drop it, the base is untouched.
func (e *Edit) Apply(at model.OffsetAndEpoch, recs []Record) error {
	for i, r := range recs {
		if why := e.apply(at, r); why != "" {
			return &ApplyError{At: at, Record: i, Kind: r.Kind(), Why: why}
		}
	}
	e.next.at = at
	return nil
}

// Done returns the new image and what changed.
func (e *Edit) Done() (*Image, *Delta) {
	e.delta.From, e.delta.To = e.base.at, e.next.at
	for _, t := range e.removed {
		e.delta.Topics = append(e.delta.Topics, TopicDelta{Old: t})
	}
	for _, t := range e.topics { // order-free: sorted below
		slices.Sort(t.changed)
		d := TopicDelta{Old: t.old, New: t.topic, Partitions: slices.Compact(t.changed)}
		e.delta.Topics = append(e.delta.Topics, d)
	}
	slices.SortFunc(e.delta.Topics, compareTopicDeltas)
	for r := range e.configs { // order-free: sorted below
		e.delta.Configs = append(e.delta.Configs, r)
	}
	slices.SortFunc(e.delta.Configs, compareResources)
	for id := range e.brokers { // order-free: sorted below
		e.delta.Brokers = append(e.delta.Brokers, id)
	}
	slices.Sort(e.delta.Brokers)
	return &e.next, &e.delta
}

// compareTopicDeltas orders by name, a removed topic before its successor.
func compareTopicDeltas(a, b TopicDelta) int {
	name := func(d TopicDelta) string {
		if d.New != nil {
			return d.New.Name
		}
		return d.Old.Name
	}
	if c := strings.Compare(name(a), name(b)); c != 0 {
		return c
	}
	if a.New == nil {
		return -1
	}
	return 1
}

// Committed is one entry of the log with its place.
type Committed struct {
	At      model.OffsetAndEpoch
	Records []Record
}

// Apply returns the image after one entry and what changed. It is pure.
func Apply(m *Image, at model.OffsetAndEpoch, recs []Record) (*Image, *Delta, error) {
	e := NewEdit(m)
	if err := e.Apply(at, recs); err != nil {
		return nil, nil, err
	}
	next, delta := e.Done()
	return next, delta, nil
}

// apply dispatches one record; the result says what is wrong with it.
func (e *Edit) apply(at model.OffsetAndEpoch, r Record) string {
	switch r := r.(type) {
	case *NoOp:
		return ""
	case *Cluster:
		return e.cluster(r)
	case *Voters:
		return e.voters(r)
	case *FeatureLevel:
		return e.feature(r)
	case *RegisterBroker:
		return e.register(at, r)
	case *UnregisterBroker:
		return e.unregister(r)
	case *BrokerChange:
		return e.changeBroker(r)
	case *BrokerEpochBump:
		return e.bump(r)
	case *TopicRecord:
		return e.createTopic(r)
	case *PartitionRecord:
		return e.createPartition(r)
	case *PartitionChange:
		return e.changePartition(r)
	case *RemoveTopic:
		return e.removeTopic(r)
	case *ConfigRecord:
		return e.config(r)
	case *ProducerIDs:
		return e.producerIDs(r)
	case *ReplicaEnd:
		return e.replicaEnd(r)
	}
	return "no rule for this record"
}

// swap replaces the share of one element in the image hash: the old record's,
// if any, by the new one's, if any.
func (e *Edit) swap(old, now Record) {
	if old != nil {
		e.next.sum.sub(e.coder.digest(old))
	}
	if now != nil {
		e.next.sum.add(e.coder.digest(now))
	}
}
