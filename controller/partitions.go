package controller

import (
	"fmt"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// createPartitions handles CreatePartitions v0–3. Partitions that exist are
// left as they are; new ones get the replication factor of partition 0.
func (c *Controller) createPartitions(view *metadata.Image, req *kmsg.CreatePartitionsRequest) Result {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	count := map[string]int{}
	for _, t := range req.Topics {
		count[t.Topic]++
	}
	r := Result{reply: resp}
	for i := range req.Topics {
		t := &req.Topics[i]
		if n := count[t.Topic]; n == 0 {
			continue
		} else if n > 1 {
			count[t.Topic] = 0
			resp.Topics = append(resp.Topics, grownTopic(t.Topic, apiError{codeInvalidRequest, "duplicate topic name"}))
			continue
		}
		unit, e := c.growTopic(view, t)
		resp.Topics = append(resp.Topics, grownTopic(t.Topic, e))
		if !e.failed() && !req.ValidateOnly {
			r.Units = append(r.Units, unit)
		}
	}
	return r
}

// growTopic checks the wish for one topic and returns the new partitions.
func (c *Controller) growTopic(view *metadata.Image, t *kmsg.CreatePartitionsRequestTopic) ([]metadata.Record, apiError) {
	topic := view.Topic(t.Topic)
	if topic == nil {
		return nil, apiError{codeUnknownTopicOrPartition, fmt.Sprintf("no topic %q", t.Topic)}
	}
	have := int32(len(topic.Partitions))
	switch {
	case t.Count == have:
		return nil, apiError{codeInvalidPartitions, fmt.Sprintf("topic %q already has %d partitions", t.Topic, have)}
	case t.Count < have:
		return nil, apiError{codeInvalidPartitions, fmt.Sprintf("topic %q has %d partitions, %d would not be an increase", t.Topic, have, t.Count)}
	case t.Count-have > RecordsMax:
		return nil, apiError{codePolicyViolation, fmt.Sprintf("excessively large operation: %d partitions, at most %d at once", t.Count-have, RecordsMax)}
	}
	first := topic.Partitions[0]
	rf := len(minus(first.Replicas, first.Removing))
	var assigned [][]model.BrokerID
	if t.Assignment == nil {
		var e apiError
		if assigned, e = c.place(view, have, t.Count-have, rf); e.failed() {
			return nil, e
		}
	} else {
		if len(t.Assignment) != int(t.Count-have) {
			return nil, apiError{codeInvalidReplicaAssignment, fmt.Sprintf("%d partitions to add, %d assignments given", t.Count-have, len(t.Assignment))}
		}
		for i, a := range t.Assignment {
			replicas := brokerIDs(a.Replicas)
			if e := checkReplicas(view, have+int32(i), replicas, rf); e.failed() {
				return nil, e
			}
			assigned = append(assigned, replicas)
		}
	}
	unit := make([]metadata.Record, len(assigned))
	for i, replicas := range assigned {
		unit[i] = newPartition(view, topic.ID, have+int32(i), replicas)
	}
	return unit, apiError{}
}
