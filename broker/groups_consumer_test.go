package broker

import (
	"fmt"
	"slices"
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
		if joined.ErrorCode != 0 || joined.MemberEpoch < 1 || joined.MemberID == nil || *joined.MemberID == "" || joined.HeartbeatIntervalMillis != 5000 {
			t.Fatalf("version %d: %+v", v, joined)
		}
		if a := joined.Assignment; a == nil || len(a.Topics) != 1 || a.Topics[0].TopicID != id || len(a.Topics[0].Partitions) != 3 {
			t.Fatalf("version %d: assignment %+v", v, joined.Assignment)
		}
		member = *joined.MemberID
		quiet := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		quiet.Group, quiet.MemberID, quiet.MemberEpoch = group, member, joined.MemberEpoch
		if resp := g.c.call(quiet, v).(*kmsg.ConsumerGroupHeartbeatResponse); resp.ErrorCode != 0 || resp.Assignment != nil {
			t.Errorf("version %d: a quiet heartbeat: %+v", v, resp)
		}
		describe := kmsg.NewPtrConsumerGroupDescribeRequest()
		describe.Groups, describe.IncludeAuthorizedOperations = []string{group, "none"}, true
		dg := g.c.call(describe, v).(*kmsg.ConsumerGroupDescribeResponse).Groups
		if len(dg) != 2 || dg[0].State != "Stable" || len(dg[0].Members) != 1 || dg[0].AuthorizedOperations == -1<<31 || dg[1].ErrorCode != protocol.CodeGroupIDNotFound {
			t.Errorf("version %d: %+v", v, dg)
		}
		if code := g.c.call(commitOffset(group, member, joined.MemberEpoch, topic, id, 0, 5), 9).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
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
		if guest.ErrorCode != 0 || guest.LeaderID != "" || guest.Generation != joined.MemberEpoch+1 {
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

const groupType = kmsg.ConfigResourceType(resourceGroup)

// TestGroupSettings: a group may have a session timeout and a heartbeat interval of
// its own, within the broker's bounds; members are told at once.
func TestGroupSettings(t *testing.T) {
	g := newGroupAPI(t)
	topic, _ := g.topic("settings", 1)
	group := g.name("configured")
	g.ready(group)
	c := g.dial()
	alter := func(name string, ops ...configOp) protocol.Code {
		return c.call(incremental(false, groupType, name, ops...), 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
	}
	for _, tt := range []struct {
		what, group, key, value string
		want                    protocol.Code
	}{
		{"no group", "", "consumer.session.timeout.ms", "50000", protocol.CodeInvalidRequest},
		{"too short", group, "consumer.session.timeout.ms", "44999", protocol.CodeInvalidConfig},
		{"too long", group, "consumer.session.timeout.ms", "60001", protocol.CodeInvalidConfig},
		{"too often", group, "consumer.heartbeat.interval.ms", "4999", protocol.CodeInvalidConfig},
		{"too seldom", group, "consumer.heartbeat.interval.ms", "15001", protocol.CodeInvalidConfig},
		{"no number", group, "consumer.heartbeat.interval.ms", "soon", protocol.CodeInvalidConfig},
		{"no such setting", group, "retention.ms", "1", protocol.CodeInvalidConfig},
		{"good", group, "consumer.heartbeat.interval.ms", "7000", protocol.CodeNone},
		{"of another kind of group", group, "share.isolation.level", "read_committed", protocol.CodeNone},
	} {
		if got := alter(tt.group, configOp{tt.key, altSet, tt.value}); got != tt.want {
			t.Errorf("%s: %s", tt.what, protocol.CodeName(got))
		}
	}
	eventually(t, "the setting holds", func() bool {
		e := c.describe(4, groupType, group, "consumer.heartbeat.interval.ms").Configs
		return len(e) == 1 && text(e[0].Value) == "7000" && e[0].Source == 8
	})
	if e := c.describe(4, groupType, group, "consumer.session.timeout.ms").Configs; len(e) != 1 || text(e[0].Value) != "45000" || e[0].Source != 5 {
		t.Errorf("%+v", e)
	}
	if got := c.describe(4, groupType, "").ErrorCode; got != protocol.CodeInvalidRequest {
		t.Errorf("describing no group: %s", protocol.CodeName(got))
	}
	beat := beatOf(group, "m", topic)
	joined := g.c.call(beat, 1).(*kmsg.ConsumerGroupHeartbeatResponse)
	if joined.ErrorCode != 0 || joined.HeartbeatIntervalMillis != 7000 {
		t.Errorf("%+v", joined)
	}
	list := kmsg.NewPtrListConfigResourcesRequest()
	list.ResourceTypes = []int8{int8(groupType)}
	found := 0
	for _, r := range c.call(list, 1).(*kmsg.ListConfigResourcesResponse).ConfigResources {
		if r.Name == group && r.Type == int8(groupType) {
			found++
		}
	}
	if found != 1 {
		t.Errorf("the group is listed %d times", found)
	}
	for _, key := range []string{"consumer.heartbeat.interval.ms", "share.isolation.level"} {
		if got := alter(group, configOp{key, altDelete, ""}); got != 0 {
			t.Error(protocol.CodeName(got))
		}
	}
	eventually(t, "members are told the broker's interval again", func() bool {
		quiet := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		quiet.Group, quiet.MemberID, quiet.MemberEpoch = group, "m", joined.MemberEpoch
		return g.c.call(quiet, 1).(*kmsg.ConsumerGroupHeartbeatResponse).HeartbeatIntervalMillis == 5000
	})
}

// TestGroupMigration: a group changes from the classic to the consumer protocol and
// back with its members, over the wire. Apache Kafka passes with
// group.consumer.assignment.interval.ms=0. Source: KIP-848.
func TestGroupMigration(t *testing.T) {
	g := newGroupAPI(t)
	topic, id := g.topic("migrated", 4)
	group := g.group
	g.ready(group)
	owns := func(ps ...int32) []byte {
		m := kmsg.NewConsumerMemberMetadata()
		m.Version, m.Topics = 1, []string{topic}
		if len(ps) > 0 {
			m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic, Partitions: ps})
		}
		return m.AppendTo(nil)
	}
	join := func(member string, ps ...int32) *kmsg.JoinGroupResponse {
		req := joinGroup(group, member, nil)
		req.Protocols[0].Metadata = owns(ps...)
		return g.c.call(req, 9).(*kmsg.JoinGroupResponse)
	}
	assigned := func(b []byte) (ps []int32) {
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		for _, at := range a.Topics {
			ps = append(ps, at.Partitions...)
		}
		slices.Sort(ps)
		return ps
	}
	beat := func(member string, generation int32) protocol.Code {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = group, member, generation
		return g.c.call(req, 4).(*kmsg.HeartbeatResponse).ErrorCode
	}
	must := func(what string, got, want protocol.Code) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, protocol.CodeName(got), protocol.CodeName(want))
		}
	}

	one := join("").MemberID
	first := join(one)
	all := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: topic, Partitions: []int32{0, 1, 2, 3}}}}
	must("the first sync", g.c.call(syncGroup(group, one, first.Generation, string(all.AppendTo(nil))), 5).(*kmsg.SyncGroupResponse).ErrorCode, 0)

	peer := g.c.call(beatOf(group, "own-id", topic), 1).(*kmsg.ConsumerGroupHeartbeatResponse)
	if peer.ErrorCode != 0 || peer.MemberEpoch != first.Generation+1 || peer.Assignment == nil || len(peer.Assignment.Topics) != 0 {
		t.Fatalf("the upgrade: %+v", peer)
	}
	must("a member of the classic protocol", beat(one, first.Generation), protocol.CodeRebalanceInProgress)
	must("another generation", beat(one, first.Generation+1), protocol.CodeIllegalGeneration)
	must("the member of the other protocol", beat("own-id", peer.MemberEpoch), protocol.CodeUnknownMemberID)
	must("nobody", beat("nobody", 1), protocol.CodeUnknownMemberID)
	must("a sync before the join", g.c.call(syncGroup(group, one, first.Generation, ""), 5).(*kmsg.SyncGroupResponse).ErrorCode, protocol.CodeRebalanceInProgress)

	second := join(one, 0, 1, 2, 3)
	if second.ErrorCode != 0 || second.Generation != first.Generation || second.LeaderID != "" || len(second.Members) != 0 {
		t.Fatalf("the join again: %+v", second)
	}
	sync := g.c.call(syncGroup(group, one, second.Generation, ""), 5).(*kmsg.SyncGroupResponse)
	kept := assigned(sync.MemberAssignment)
	if sync.ErrorCode != 0 || len(kept) != 2 {
		t.Fatalf("%d, it keeps %v", sync.ErrorCode, kept)
	}
	must("it has to give up two", beat(one, second.Generation), protocol.CodeRebalanceInProgress)
	third := join(one, kept...)
	if third.ErrorCode != 0 || third.Generation != peer.MemberEpoch {
		t.Fatalf("it has given up: %+v", third)
	}
	must("the sync", g.c.call(syncGroup(group, one, third.Generation, ""), 5).(*kmsg.SyncGroupResponse).ErrorCode, 0)
	must("it is settled", beat(one, third.Generation), 0)
	wrong := syncGroup(group, one, third.Generation, "")
	*wrong.Protocol = "sticky"
	must("another way of assigning", g.c.call(wrong, 5).(*kmsg.SyncGroupResponse).ErrorCode, protocol.CodeInconsistentGroupProtocol)
	stranger := joinGroup(group, "", nil)
	stranger.Protocols[0].Name = "sticky"
	must("a member with nothing in common", g.c.call(stranger, 9).(*kmsg.JoinGroupResponse).ErrorCode, protocol.CodeInconsistentGroupProtocol)
	stranger.ProtocolType = "connect"
	must("a member of another kind", g.c.call(stranger, 9).(*kmsg.JoinGroupResponse).ErrorCode, protocol.CodeInconsistentGroupProtocol)
	commit := func(generation int32, version int16) protocol.Code {
		return g.c.call(commitOffset(group, one, generation, topic, id, 0, 5), version).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}
	must("a commit", commit(third.Generation, 8), 0)
	must("a commit of another generation", commit(third.Generation+1, 8), protocol.CodeIllegalGeneration)
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{group}
	types := map[string]int8{}
	for _, m := range g.c.call(describe, 1).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].Members {
		types[m.MemberID] = m.MemberType
	}
	if types[one] != 0 || types["own-id"] != 1 || len(types) != 2 {
		t.Errorf("members %v", types)
	}

	quiet := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	quiet.Group, quiet.MemberID, quiet.MemberEpoch = group, "own-id", -1
	must("the other leaves", g.c.call(quiet, 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, 0)
	must("the group is classic again", beat(one, third.Generation), protocol.CodeRebalanceInProgress)
	last := join(one)
	if last.ErrorCode != 0 || last.Generation != third.Generation+1 || last.LeaderID != one || len(last.Members) != 1 {
		t.Fatalf("the last join: %+v", last)
	}
	must("the last sync", g.c.call(syncGroup(group, one, last.Generation, string(all.AppendTo(nil))), 5).(*kmsg.SyncGroupResponse).ErrorCode, 0)
	quiet.MemberEpoch = last.Generation
	must("a heartbeat of the other protocol", g.c.call(quiet, 1).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, protocol.CodeGroupIDNotFound)
	leave := kmsg.NewPtrLeaveGroupRequest()
	rm := kmsg.NewLeaveGroupRequestMember()
	rm.MemberID = one
	leave.Group, leave.Members = group, []kmsg.LeaveGroupRequestMember{rm}
	must("leaving", g.c.call(leave, 5).(*kmsg.LeaveGroupResponse).Members[0].ErrorCode, 0)
}
