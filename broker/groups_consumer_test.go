package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/protocol"
)

// beatOf is a first heartbeat of a member that the coordinator assigns to.
func beatOf(group, member, topic string) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.RebalanceTimeoutMillis = group, member, 10_000
	r.SubscribedTopicNames, r.Topics = []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return r
}

// A member's life under the protocol in which the coordinator assigns (KIP-848),
// in every version: it joins, is described, commits and leaves.
func TestConsumerGroupVersions(t *testing.T) {
	g := newGroupAPI(t)
	topic, id := g.topic("assigned", 3)
	for _, v := range versions(t, protocol.KeyConsumerGroupHeartbeat) {
		group := g.name(fmt.Sprintf("consumer-%d", v))
		g.ready(group)
		member := ""
		if v >= 1 {
			member = "own-id"
		}
		joined := g.c.call(beatOf(group, member, topic), v).(*kmsg.ConsumerGroupHeartbeatResponse)
		if joined.ErrorCode != 0 || joined.MemberEpoch != 1 || joined.MemberID == nil || *joined.MemberID == "" || joined.HeartbeatIntervalMillis != 5000 {
			t.Fatalf("version %d: %+v", v, joined)
		}
		if a := joined.Assignment; a == nil || len(a.Topics) != 1 || a.Topics[0].TopicID != id || len(a.Topics[0].Partitions) != 3 {
			t.Fatalf("version %d: assignment %+v", v, joined.Assignment)
		}
		member = *joined.MemberID
		quiet := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		quiet.Group, quiet.MemberID, quiet.MemberEpoch = group, member, 1
		if resp := g.c.call(quiet, v).(*kmsg.ConsumerGroupHeartbeatResponse); resp.ErrorCode != 0 || resp.Assignment != nil {
			t.Errorf("version %d: a quiet heartbeat: %+v", v, resp)
		}
		describe := kmsg.NewPtrConsumerGroupDescribeRequest()
		describe.Groups, describe.IncludeAuthorizedOperations = []string{group, "none"}, true
		dg := g.c.call(describe, v).(*kmsg.ConsumerGroupDescribeResponse).Groups
		if len(dg) != 2 || dg[0].State != "Stable" || len(dg[0].Members) != 1 || dg[0].AuthorizedOperations == -1<<31 || dg[1].ErrorCode != protocol.CodeGroupIDNotFound {
			t.Errorf("version %d: %+v", v, dg)
		}
		if code := g.c.call(commitOffset(group, member, 1, topic, id, 0, 5), 9).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Errorf("version %d: commit %s", v, protocol.CodeName(code))
		}
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fg := kmsg.NewOffsetFetchRequestGroup()
		fg.Group, fg.MemberID, fg.MemberEpoch = group, &member, 9
		fetch.Groups = append(fetch.Groups, fg)
		if code := g.c.call(fetch, 9).(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode; code != protocol.CodeStaleMemberEpoch {
			t.Errorf("version %d: a fetch in a wrong epoch: %s", v, protocol.CodeName(code))
		}
		guest := g.c.call(joinGroup(group, "", nil), 3).(*kmsg.JoinGroupResponse)
		if guest.ErrorCode != 0 || guest.LeaderID != "" || guest.Generation != 2 {
			t.Errorf("version %d: a classic join: %+v", v, guest)
		}
		quiet.MemberEpoch = -1
		if resp := g.c.call(quiet, v).(*kmsg.ConsumerGroupHeartbeatResponse); resp.ErrorCode != 0 || resp.MemberEpoch != -1 {
			t.Errorf("version %d: leaving: %+v", v, resp)
		}
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Group, beat.MemberID, beat.Generation = group, guest.MemberID, guest.Generation
		if code := g.c.call(beat, 4).(*kmsg.HeartbeatResponse).ErrorCode; code != protocol.CodeRebalanceInProgress {
			t.Errorf("version %d: a classic member that is left alone: %s", v, protocol.CodeName(code))
		}
	}
	bad := beatOf(g.group, "m", topic)
	expr := "("
	bad.SubscribedTopicRegex = &expr
	if code := g.c.call(bad, 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode; code != protocol.CodeInvalidRegularExpression {
		t.Errorf("a bad pattern: %s", protocol.CodeName(code))
	}
}
