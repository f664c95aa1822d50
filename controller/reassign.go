package controller

import (
	"fmt"
	"slices"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/tidemark/tidemark/internal/model"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterAssignments handles AlterPartitionReassignments v0–1. A reassignment
// starts here, lives in the registration while the new replicas fetch, and is
// completed by whichever change finds them all in sync. Source: KIP-455.
func (c *Controller) alterAssignments(view *metadata.Image, req *kmsg.AlterPartitionAssignmentsRequest) Result {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	fixed := req.Version >= 1 && !req.AllowReplicationFactorChange
	resp.AllowReplicationFactorChange = !fixed
	s := c.settings(view)
	var recs []metadata.Record
	changed := map[model.TopicIDPartition]bool{}
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = in.Topic
		t := view.Topic(in.Topic)
		for k := range in.Partitions {
			r, e := c.reassign(s, t, in.Topic, &in.Partitions[k], fixed)
			if r != nil {
				if tp := (model.TopicIDPartition{TopicID: r.TopicID, Partition: r.Partition}); changed[tp] {
					r, e = nil, apiError{codeInvalidRequest, "the partition is listed twice"}
				} else {
					changed[tp] = true
				}
			}
			if r != nil {
				recs = append(recs, r)
			}
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = in.Partitions[k].Partition, e.code, e.text()
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Result{reply: resp, Units: chunked(recs)}
}

// reassign starts, changes or cancels the reassignment of one partition. fixed:
// the number of replicas may not change.
func (c *Controller) reassign(s *settings, t *metadata.Topic, name string, in *kmsg.AlterPartitionAssignmentsRequestTopicPartition, fixed bool) (*metadata.PartitionChange, apiError) {
	if t == nil {
		return nil, apiError{codeUnknownTopicOrPartition, fmt.Sprintf("no topic %q", name)}
	}
	p := t.Partition(in.Partition)
	if p == nil {
		return nil, apiError{codeUnknownTopicOrPartition, fmt.Sprintf("no partition %d of topic %q", in.Partition, name)}
	}
	// What the partition had before a reassignment that is still running.
	origin := minus(p.Replicas, p.Adding)
	ch := c.change(s, t, in.Partition)
	if in.Replicas == nil {
		if !p.Reassigning() {
			return nil, apiError{codeNoReassignmentInProgress, "there is no reassignment to cancel"}
		}
		ch.replicas = origin
	} else {
		goal := brokerIDs(in.Replicas)
		if e := checkGoal(s.view, goal); e.failed() {
			return nil, e
		}
		if have := len(minus(p.Replicas, p.Removing)); fixed && len(goal) != have {
			return nil, apiError{codeInvalidReplicationFactor, fmt.Sprintf("%d replicas, the partition has %d", len(goal), have)}
		}
		ch.removing = minus(origin, goal)
		slices.Sort(ch.removing)
		ch.adding = minus(goal, origin)
		slices.Sort(ch.adding)
		ch.replicas = append(slices.Clone(goal), ch.removing...)
	}
	if in.Replicas == nil {
		ch.adding, ch.removing = []model.BrokerID{}, []model.BrokerID{}
	}
	ch.isr = within(p.ISR, ch.replicas)
	if e := ch.strand(p); e.failed() {
		return nil, e
	}
	return ch.build(), apiError{}
}

// strand refuses a change that would take away the last replica known to be
// complete, or the last that was, unless the topic lets anybody lead; then the first of those that
// remain and are online does, as after an unclean election.
func (c *change) strand(p *metadata.PartitionRegistration) apiError {
	best := append(slices.Clone(p.ISR), p.ELR...)
	if len(best) == 0 {
		best = p.LastKnown
	}
	if len(best) == 0 || len(within(best, c.replicas)) > 0 {
		return apiError{}
	}
	if c.election == ElectUnclean && slices.ContainsFunc(c.replicas, func(b model.BrokerID) bool { return c.acceptable(p, b) }) {
		return apiError{}
	}
	return apiError{codeInvalidReplicaAssignment, fmt.Sprintf("none of the brokers %v is in sync: it would take an unclean election", c.replicas)}
}

// checkGoal checks the replicas that a partition is to have.
func checkGoal(view *metadata.Image, goal []model.BrokerID) apiError {
	if len(goal) == 0 {
		return apiError{codeInvalidReplicaAssignment, "the replica list is empty"}
	}
	for i, b := range goal {
		if view.Broker(b) == nil {
			return apiError{codeInvalidReplicaAssignment, fmt.Sprintf("broker %d is not registered", b)}
		}
		if slices.Contains(goal[:i], b) {
			return apiError{codeInvalidReplicaAssignment, fmt.Sprintf("broker %d is listed twice", b)}
		}
	}
	return apiError{}
}

// ListReassignments answers ListPartitionReassignments v0 from an image: the
// partitions among those asked for, or among all, that are being reassigned.
func ListReassignments(m *metadata.Image, req *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	if m.Reassigning() == 0 {
		return resp
	}
	add := func(t *metadata.Topic, numbers []int32) {
		out := kmsg.NewListPartitionReassignmentsResponseTopic()
		out.Topic = t.Name
		for _, n := range numbers {
			p := t.Partition(n)
			if p == nil || !p.Reassigning() {
				continue
			}
			op := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			op.Partition, op.Replicas = n, brokerInts(p.Replicas)
			op.AddingReplicas, op.RemovingReplicas = brokerInts(p.Adding), brokerInts(p.Removing)
			out.Partitions = append(out.Partitions, op)
		}
		if len(out.Partitions) > 0 {
			resp.Topics = append(resp.Topics, out)
		}
	}
	if req.Topics == nil {
		for t := range m.Topics() {
			add(t, upTo(len(t.Partitions)))
		}
		return resp
	}
	for i := range req.Topics {
		if t := m.Topic(req.Topics[i].Topic); t != nil {
			add(t, req.Topics[i].Partitions)
		}
	}
	return resp
}

func upTo(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}
