package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// groupAPI is a broker whose groups are ready, and a group of the test's own.
type groupAPI struct {
	*api
	c     *rawConn
	group string
}

func newGroupAPI(t *testing.T) *groupAPI {
	a := newAPI(t, "group.initial.rebalance.delay.ms=0")
	g := &groupAPI{api: a, c: a.dial(), group: a.name("group")}
	g.ready(g.group)
	return g
}

// ready waits until the group's coordinator serves.
func (g *groupAPI) ready(name string) {
	g.t.Helper()
	eventually(g.t, "a coordinator of "+name, func() bool {
		resp := g.c.call(findGroups(name), 4).(*kmsg.FindCoordinatorResponse)
		if resp.Coordinators[0].ErrorCode != 0 {
			return false
		}
		code := g.c.call(heartbeat(name, "nobody", 1), 4).(*kmsg.HeartbeatResponse).ErrorCode
		return code == protocol.CodeUnknownMemberID
	})
}

func findGroups(names ...string) *kmsg.FindCoordinatorRequest {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = names
	if len(names) > 0 {
		req.CoordinatorKey = names[0]
	}
	return req
}

func heartbeat(group, member string, generation int32) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	return req
}

func joinGroup(group, member string, instance *string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID = group, member, instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 10_000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = []string{"read"}
	p.Metadata = m.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	return req
}

func syncGroup(group, member string, generation int32, assign string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	kind, name := "consumer", "range"
	req.ProtocolType, req.Protocol = &kind, &name
	if assign != "" {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = member, []byte(assign)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

func commitOffset(group, member string, generation int32, topic string, id model.TopicID, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	text := "text"
	rp.Partition, rp.Offset, rp.Metadata, rp.LeaderEpoch = partition, offset, &text, 0
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// join joins with as many requests as the version needs, and returns the last
// answer.
func (g *groupAPI) join(version int16, instance *string) *kmsg.JoinGroupResponse {
	g.t.Helper()
	resp := g.c.call(joinGroup(g.group, "", instance), version).(*kmsg.JoinGroupResponse)
	if version >= 4 && instance == nil {
		if resp.ErrorCode != protocol.CodeMemberIDRequired || resp.MemberID == "" {
			g.t.Fatalf("version %d: the first join is answered %d with id %q, want MEMBER_ID_REQUIRED with an id", version, resp.ErrorCode, resp.MemberID)
		}
		resp = g.c.call(joinGroup(g.group, resp.MemberID, nil), version).(*kmsg.JoinGroupResponse)
	}
	if resp.ErrorCode != 0 {
		g.t.Fatalf("version %d: join is answered %s", version, protocol.CodeName(resp.ErrorCode))
	}
	return resp
}

// A member's life in every version of each request.
func TestGroupVersions(t *testing.T) {
	g := newGroupAPI(t)
	topic, id := g.topic("read", 2)
	for _, v := range versions(t, protocol.KeyJoinGroup) {
		g.group = g.name(fmt.Sprintf("join-%d", v))
		g.ready(g.group)
		j := g.join(v, nil)
		if j.Generation != 1 || j.LeaderID != j.MemberID || len(j.Members) != 1 || *j.Protocol != "range" {
			t.Fatalf("version %d: %+v", v, j)
		}
		if v >= 7 && (j.ProtocolType == nil || *j.ProtocolType != "consumer") {
			t.Errorf("version %d: no protocol type", v)
		}
		lower := func(key int16) int16 { vs := versions(t, key); return min(max(v, vs[0]), vs[len(vs)-1]) }
		s := g.c.call(syncGroup(g.group, j.MemberID, 1, "all"), lower(protocol.KeySyncGroup)).(*kmsg.SyncGroupResponse)
		if s.ErrorCode != 0 || string(s.MemberAssignment) != "all" {
			t.Errorf("version %d: sync %+v", v, s)
		}
		if code := g.c.call(heartbeat(g.group, j.MemberID, 1), lower(protocol.KeyHeartbeat)).(*kmsg.HeartbeatResponse).ErrorCode; code != 0 {
			t.Errorf("version %d: heartbeat %d", v, code)
		}
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = g.group, j.MemberID
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = j.MemberID
		leave.Members = append(leave.Members, m)
		l := g.c.call(leave, lower(protocol.KeyLeaveGroup)).(*kmsg.LeaveGroupResponse)
		if l.ErrorCode != 0 || v >= 3 && (len(l.Members) != 1 || l.Members[0].ErrorCode != 0) {
			t.Errorf("version %d: leave %+v", v, l)
		}
	}
	g.group = g.name("offsets")
	g.ready(g.group)
	for _, v := range versions(t, protocol.KeyOffsetCommit) {
		resp := g.c.call(commitOffset(g.group, "", -1, topic, id, 1, int64(v)), v).(*kmsg.OffsetCommitResponse)
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Errorf("commit version %d: %s", v, protocol.CodeName(code))
		}
		for _, f := range versions(t, protocol.KeyOffsetFetch) {
			if p := g.fetch(f, topic, id, 1); p.Offset != int64(v) || p.ErrorCode != 0 || *p.Metadata != "text" {
				t.Errorf("fetch version %d after commit version %d: %+v", f, v, p)
			}
			if p := g.fetch(f, topic, id, 0); p.Offset != -1 || p.ErrorCode != 0 || *p.Metadata != "" {
				t.Errorf("fetch version %d of what was never committed: %+v", f, p)
			}
		}
	}
}

// What a coordinator counts reaches the pages.
func TestGroupCounts(t *testing.T) {
	b := startBroker(t, t.TempDir(), "group.initial.rebalance.delay.ms=0")
	t.Cleanup(func() { stopBroker(t, b) })
	a := &api{t: t, b: b, addr: b.Addr()}
	g := &groupAPI{api: a, c: a.dial(), group: "g"}
	topic, id := g.topic("read", 1)
	g.ready("g")
	j := g.join(9, nil)
	g.c.call(syncGroup("g", j.MemberID, 1, "all"), 5)
	g.c.call(commitOffset("g", j.MemberID, 1, topic, id, 0, 5), 9)
	c := b.groups.counts.read()
	if c.Stable != 1 || c.Empty+c.Preparing+c.Completing != 0 || c.Offsets != 1 || c.Commits != 1 || c.Generations != 1 || c.Rebalances != 1 || c.Loads != 50 || c.Reloads != 0 {
		t.Errorf("%+v", c)
	}
}

// fetch fetches one offset, whatever shape the version has.
func (g *groupAPI) fetch(version int16, topic string, id model.TopicID, partition int32) (out kmsg.OffsetFetchResponseTopicPartition) {
	g.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = g.group, true
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, rt)
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = g.group
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.TopicID, gt.Partitions = topic, id, []int32{partition}
	rg.Topics = append(rg.Topics, gt)
	req.Groups = append(req.Groups, rg)
	resp := g.c.call(req, version).(*kmsg.OffsetFetchResponse)
	if version < 8 {
		if resp.ErrorCode != 0 {
			g.t.Fatalf("fetch version %d: %d", version, resp.ErrorCode)
		}
		return resp.Topics[0].Partitions[0]
	}
	p := resp.Groups[0].Topics[0].Partitions[0]
	out.Partition, out.Offset, out.LeaderEpoch, out.Metadata, out.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
	return out
}

func TestFindCoordinatorOfGroups(t *testing.T) {
	g := newGroupAPI(t)
	for _, v := range versions(t, protocol.KeyFindCoordinator) {
		resp := g.c.call(findGroups(g.group, g.group+"2"), v).(*kmsg.FindCoordinatorResponse)
		if v < 4 {
			if resp.ErrorCode != 0 || resp.NodeID != 1 || resp.Port <= 0 {
				t.Errorf("version %d: %+v", v, resp)
			}
			continue
		}
		if len(resp.Coordinators) != 2 || resp.Coordinators[1].NodeID != 1 || resp.Coordinators[1].Key != g.group+"2" || resp.Coordinators[1].ErrorCode != 0 {
			t.Errorf("version %d: %+v", v, resp.Coordinators)
		}
	}
	bad := findGroups("x")
	bad.CoordinatorType = 9
	if code := g.c.call(bad, 4).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode; code != protocol.CodeInvalidRequest {
		t.Errorf("an unknown kind: %s", protocol.CodeName(code))
	}
	empty := g.c.call(findGroups(""), 4).(*kmsg.FindCoordinatorResponse).Coordinators[0]
	if empty.ErrorCode != 0 {
		t.Errorf("the group without a name: %s", protocol.CodeName(empty.ErrorCode))
	}
}

// What is refused, and with which code.
func TestGroupErrors(t *testing.T) {
	g := newGroupAPI(t)
	topic, id := g.topic("read", 2)
	none := g.name("no-such-group")
	g.ready(none)
	j := g.join(9, nil)
	short := joinGroup(g.group, "", nil)
	short.SessionTimeoutMillis = 5_999
	long := joinGroup(g.group, "", nil)
	long.SessionTimeoutMillis = 1_800_001
	other := joinGroup(g.group, "", nil)
	other.ProtocolType = "connect"
	uncommon := joinGroup(g.group, "", nil)
	uncommon.Protocols[0].Name = "mine"
	without := joinGroup(g.group, "", nil)
	without.Protocols = nil
	static := "static"
	joins := []struct {
		what string
		req  *kmsg.JoinGroupRequest
		want protocol.Code
	}{
		{"no group id", joinGroup("", "", nil), protocol.CodeInvalidGroupID},
		{"no group id, short session", func() *kmsg.JoinGroupRequest { r := joinGroup("", "", nil); r.SessionTimeoutMillis = 1; return r }(), protocol.CodeInvalidGroupID},
		{"short session", short, protocol.CodeInvalidSessionTimeout},
		{"long session", long, protocol.CodeInvalidSessionTimeout},
		{"member of no group", joinGroup(none, "ghost", nil), protocol.CodeUnknownMemberID},
		{"unknown member", joinGroup(g.group, "ghost", nil), protocol.CodeUnknownMemberID},
		{"unknown static member", joinGroup(g.group, "ghost", &static), protocol.CodeUnknownMemberID},
		{"another protocol type", other, protocol.CodeInconsistentGroupProtocol},
		{"no common protocol", uncommon, protocol.CodeInconsistentGroupProtocol},
		{"no protocol", without, protocol.CodeInconsistentGroupProtocol},
	}
	for _, tt := range joins {
		if resp := g.c.call(tt.req, 9).(*kmsg.JoinGroupResponse); resp.ErrorCode != tt.want || resp.Generation != -1 {
			t.Errorf("join, %s: %s generation %d, want %s", tt.what, protocol.CodeName(resp.ErrorCode), resp.Generation, protocol.CodeName(tt.want))
		}
	}
	nilType := syncGroup(g.group, j.MemberID, 1, "")
	nilType.ProtocolType = nil
	wrongType := syncGroup(g.group, j.MemberID, 1, "")
	*wrongType.ProtocolType = "connect"
	wrongName := syncGroup(g.group, j.MemberID, 1, "")
	*wrongName.Protocol = "mine"
	syncs := []struct {
		what string
		req  *kmsg.SyncGroupRequest
		want protocol.Code
	}{
		{"no group id", syncGroup("", j.MemberID, 1, ""), protocol.CodeInvalidGroupID},
		{"no group", syncGroup(none, j.MemberID, 1, ""), protocol.CodeUnknownMemberID},
		{"unknown member", syncGroup(g.group, "ghost", 1, ""), protocol.CodeUnknownMemberID},
		{"unknown member, other generation", syncGroup(g.group, "ghost", 7, ""), protocol.CodeUnknownMemberID},
		{"other generation", syncGroup(g.group, j.MemberID, 2, ""), protocol.CodeIllegalGeneration},
		{"protocol type missing", nilType, protocol.CodeInconsistentGroupProtocol},
		{"protocol type", wrongType, protocol.CodeInconsistentGroupProtocol},
		{"protocol", wrongName, protocol.CodeInconsistentGroupProtocol},
	}
	for _, tt := range syncs {
		if resp := g.c.call(tt.req, 5).(*kmsg.SyncGroupResponse); resp.ErrorCode != tt.want {
			t.Errorf("sync, %s: %s, want %s", tt.what, protocol.CodeName(resp.ErrorCode), protocol.CodeName(tt.want))
		}
	}
	beats := []struct {
		what string
		req  *kmsg.HeartbeatRequest
		want protocol.Code
	}{
		{"no group id", heartbeat("", "x", 1), protocol.CodeInvalidGroupID},
		{"no group", heartbeat(none, "x", 1), protocol.CodeUnknownMemberID},
		{"unknown member", heartbeat(g.group, "ghost", 1), protocol.CodeUnknownMemberID},
		{"other generation", heartbeat(g.group, j.MemberID, 0), protocol.CodeIllegalGeneration},
		{"a member", heartbeat(g.group, j.MemberID, 1), protocol.CodeNone},
	}
	for _, tt := range beats {
		if resp := g.c.call(tt.req, 4).(*kmsg.HeartbeatResponse); resp.ErrorCode != tt.want {
			t.Errorf("heartbeat, %s: %s, want %s", tt.what, protocol.CodeName(resp.ErrorCode), protocol.CodeName(tt.want))
		}
	}
	commits := []struct {
		what    string
		version int16
		req     *kmsg.OffsetCommitRequest
		want    protocol.Code
	}{
		{"rebalancing", 9, commitOffset(g.group, j.MemberID, 1, topic, id, 0, 1), protocol.CodeRebalanceInProgress},
		{"unknown topic", 9, commitOffset(g.group, j.MemberID, 1, "nope", id, 0, 1), protocol.CodeUnknownTopicOrPartition},
		{"unknown partition", 9, commitOffset(g.group, j.MemberID, 1, topic, id, 9, 1), protocol.CodeUnknownTopicOrPartition},
		{"unknown id", 10, commitOffset(g.group, j.MemberID, 1, topic, model.TopicID{9}, 0, 1), protocol.CodeUnknownTopicID},
		{"no member", 9, commitOffset(g.group, "", -1, topic, id, 0, 1), protocol.CodeUnknownMemberID},
		{"unknown member", 9, commitOffset(g.group, "ghost", 1, topic, id, 0, 1), protocol.CodeUnknownMemberID},
		{"other generation", 9, commitOffset(g.group, j.MemberID, 3, topic, id, 0, 1), protocol.CodeIllegalGeneration},
		{"no group, generation", 8, commitOffset(none, "x", 1, topic, id, 0, 1), protocol.CodeIllegalGeneration},
		{"no group, generation", 9, commitOffset(none, "x", 1, topic, id, 0, 1), protocol.CodeGroupIDNotFound},
	}
	for _, tt := range commits {
		if code := g.c.call(tt.req, tt.version).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != tt.want {
			t.Errorf("commit version %d, %s: %s, want %s", tt.version, tt.what, protocol.CodeName(code), protocol.CodeName(tt.want))
		}
	}
	g.adminErrors(topic, none)
}

// adminErrors: what administrators are refused of a group with a member.
func (g *groupAPI) adminErrors(topic, none string) {
	t := g.t
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{g.group, none}
	for _, v := range versions(t, protocol.KeyDeleteGroups) {
		got := map[string]protocol.Code{}
		for _, r := range g.c.call(del, v).(*kmsg.DeleteGroupsResponse).Groups {
			got[r.Group] = r.ErrorCode
		}
		if got[g.group] != protocol.CodeNonEmptyGroup || got[none] != protocol.CodeGroupIDNotFound {
			t.Errorf("delete version %d: %v", v, got)
		}
	}
	offsets := func(group, topic string, partition int32) *kmsg.OffsetDeleteResponse {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rp := kmsg.NewOffsetDeleteRequestTopicPartition()
		rt.Topic, rp.Partition = topic, partition
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		return g.c.call(req, 0).(*kmsg.OffsetDeleteResponse)
	}
	if r := offsets(none, topic, 0); r.ErrorCode != protocol.CodeGroupIDNotFound {
		t.Errorf("delete offsets of no group: %+v", r)
	}
	if r := offsets("", topic, 0); r.ErrorCode != protocol.CodeInvalidGroupID {
		t.Errorf("delete offsets without a group: %+v", r)
	}
	if r := offsets(g.group, topic, 9); r.ErrorCode != 0 || r.Topics[0].Partitions[0].ErrorCode != protocol.CodeUnknownTopicOrPartition {
		t.Errorf("delete offsets of an unknown partition: %+v", r)
	}
	for _, v := range versions(t, protocol.KeyDescribeGroups) {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups, req.IncludeAuthorizedOperations = []string{g.group, none}, true
		got := map[string]kmsg.DescribeGroupsResponseGroup{}
		for _, r := range g.c.call(req, v).(*kmsg.DescribeGroupsResponse).Groups {
			got[r.Group] = r
		}
		want := protocol.CodeNone
		if v >= 6 {
			want = protocol.CodeGroupIDNotFound
		}
		if r := got[none]; r.State != "Dead" || r.ErrorCode != want {
			t.Errorf("describe version %d of no group: %+v", v, r)
		}
		if r := got[g.group]; r.ErrorCode != 0 || r.State != "CompletingRebalance" || len(r.Members) != 1 || r.Members[0].ClientHost != "/127.0.0.1" || r.ProtocolType != "consumer" {
			t.Errorf("describe version %d: %+v", v, r)
		}
		if r := got[g.group]; v >= 3 && r.AuthorizedOperations != groupOperations {
			t.Errorf("describe version %d: operations %b, want %b", v, r.AuthorizedOperations, groupOperations)
		}
	}
	for _, v := range versions(t, protocol.KeyListGroups) {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = []string{"completingrebalance"}, []string{"Classic"}
		resp := g.c.call(req, v).(*kmsg.ListGroupsResponse)
		i := slices.IndexFunc(resp.Groups, func(r kmsg.ListGroupsResponseGroup) bool { return r.Group == g.group })
		if resp.ErrorCode != 0 || i < 0 || resp.Groups[i].ProtocolType != "consumer" || v >= 4 && resp.Groups[i].GroupState != "CompletingRebalance" || v >= 5 && resp.Groups[i].GroupType != "classic" {
			t.Errorf("list version %d: %+v", v, resp)
		}
		req.StatesFilter = []string{"Stable"}
		if resp := g.c.call(req, max(v, 4)).(*kmsg.ListGroupsResponse); slices.ContainsFunc(resp.Groups, func(r kmsg.ListGroupsResponseGroup) bool { return r.Group == g.group }) {
			t.Errorf("list: %+v has a group that is not stable", resp)
		}
	}
}

// A join waits for others without holding up what else its connection asks.
func TestJoinParks(t *testing.T) {
	g := newGroupAPI(t)
	j := g.join(9, nil)
	g.c.call(syncGroup(g.group, j.MemberID, 1, "all"), 5)
	waiting := g.dial()
	second := waiting.call(joinGroup(g.group, "", nil), 9).(*kmsg.JoinGroupResponse)
	waiting.send(joinGroup(g.group, second.MemberID, nil), 9) // waits for the first
	eventually(t, "the first member is told to join again", func() bool {
		return g.c.call(heartbeat(g.group, j.MemberID, 1), 4).(*kmsg.HeartbeatResponse).ErrorCode == protocol.CodeRebalanceInProgress
	})
	again := g.c.call(joinGroup(g.group, j.MemberID, nil), 9).(*kmsg.JoinGroupResponse)
	if again.ErrorCode != 0 || again.Generation != 2 || len(again.Members) != 2 {
		t.Fatalf("the leader is answered %+v", again)
	}
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = 9
	if err := resp.ReadFrom(waiting.answer()[5:]); err != nil || resp.ErrorCode != 0 || resp.Generation != 2 || len(resp.Members) != 0 {
		t.Fatalf("the second member is answered %+v: %v", resp, err)
	}
}

// A stop answers members that wait; it does not wait for them.
func TestStopAnswersWhoWaits(t *testing.T) {
	b := startBroker(t, t.TempDir(), "group.initial.rebalance.delay.ms=600000")
	a := &api{t: t, b: b, addr: b.Addr()}
	g := &groupAPI{api: a, c: a.dial(), group: "g"}
	g.ready("g")
	waiting := a.dial()
	first := waiting.call(joinGroup("g", "", nil), 9).(*kmsg.JoinGroupResponse)
	waiting.send(joinGroup("g", first.MemberID, nil), 9)
	eventually(t, "the member waits", func() bool {
		return g.c.call(heartbeat("g", first.MemberID, 0), 4).(*kmsg.HeartbeatResponse).ErrorCode == protocol.CodeRebalanceInProgress
	})
	began := time.Now()
	stopBroker(t, b)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the stop took %v", took)
	}
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = 9
	if err := resp.ReadFrom(waiting.answer()[5:]); err != nil || resp.ErrorCode != protocol.CodeCoordinatorNotAvailable {
		t.Errorf("the member is answered %+v: %v", resp, err)
	}
}

// Kafka's hash of a group's name, its absolute value, and the one that has none.
// Source: java.lang.String.hashCode.
func TestHomeOf(t *testing.T) {
	tests := []struct {
		name string
		want int32
	}{
		{"", 0}, {"a", 97 % 50}, {"group", 98629247 % 50}, {"polygenelubricants", 0},
		{"\U0001F600", 1772899 % 50},
	}
	for _, tt := range tests {
		if got := homeOf(tt.name, 50); got != tt.want {
			t.Errorf("%q is at home in %d, want %d", tt.name, got, tt.want)
		}
	}
}
