package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/coordinator"
	"github.com/tidemark/tidemark/coordinator/group/assign"
)

// describeConsumer handles one group of a ConsumerGroupDescribe.
func (m *Machine) describeConsumer(c *coordinator.Call, out *coordinator.Out) {
	dg := kmsg.NewConsumerGroupDescribeResponseGroup()
	dg.Group = c.Key
	g := m.groups[c.Key]
	if g == nil || g.consumer == nil {
		why := "Group " + c.Key + " not found."
		if g != nil {
			why = "Group " + c.Key + " is not a consumer group."
		}
		dg.ErrorCode, dg.ErrorMessage, dg.State = codeGroupIDNotFound, &why, Dead.String()
		out.Answer(c, &dg)
		return
	}
	cg := g.consumer
	dg.State, dg.AssignorName = cg.State(), cg.Assignor()
	dg.Epoch, dg.AssignmentEpoch = cg.Epochs()
	for _, id := range cg.Members() {
		mem := cg.Member(id)
		dm := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		dm.MemberID, dm.InstanceID, dm.RackID, dm.MemberEpoch = id, mem.Instance, mem.Rack, mem.Epoch
		dm.ClientID, dm.ClientHost = mem.ClientID, mem.ClientHost
		dm.SubscribedTopics, dm.SubscribedTopicRegex = slices.Clone(mem.Names), mem.Regex
		dm.Assignment, dm.TargetAssignment = m.named(mem.Assigned), m.named(cg.Target(id))
		if dm.MemberType = 1; mem.Classic != nil {
			dm.MemberType = 0
		}
		dg.Members = append(dg.Members, dm)
	}
	out.Answer(c, &dg)
}

// named is a set with the names of its topics; one that is gone has none
// and is left out.
func (m *Machine) named(s assign.Set) kmsg.Assignment {
	a := kmsg.NewAssignment()
	name := m.topicNames()
	for _, t := range byTopic(s) {
		if name, ok := name(t.id); ok {
			at := kmsg.NewAssignmentTopicPartition()
			at.TopicID, at.Topic, at.Partitions = t.id, name, t.partitions
			a.TopicPartitions = append(a.TopicPartitions, at)
		}
	}
	return a
}
