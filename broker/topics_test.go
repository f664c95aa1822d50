package broker

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

// newTopic is a topic of a CreateTopics request.
func newTopic(name string, partitions int32, rf int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, rf
	for _, kv := range configs {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		k, v, ok := strings.Cut(kv, "=")
		rc.Name = k
		if ok {
			rc.Value = &v
		}
		rt.Configs = append(rt.Configs, rc)
	}
	return rt
}

// assigned gives a topic its replicas by hand: one list for each partition, the
// partition's number in front.
func assigned(rt kmsg.CreateTopicsRequestTopic, lists ...[]int32) kmsg.CreateTopicsRequestTopic {
	for _, l := range lists {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = l[0], l[1:]
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
	}
	return rt
}

func createTopics(validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly, req.Topics = 10_000, validateOnly, topics
	return req
}

func TestCreateTopicsErrors(t *testing.T) {
	a := newAPI(t)
	exists, _ := a.topic("exists", 1)
	dotted, _ := a.topic("dot.ted", 1)
	n := a.name
	tests := []struct {
		what  string
		topic kmsg.CreateTopicsRequestTopic
		want  protocol.Code
	}{
		{"exists", newTopic(exists, 1, 1), protocol.CodeTopicAlreadyExists},
		{"empty name", newTopic("", 1, 1), protocol.CodeInvalidTopicException},
		{"dot", newTopic(".", 1, 1), protocol.CodeInvalidTopicException},
		{"dots", newTopic("..", 1, 1), protocol.CodeInvalidTopicException},
		{"slash", newTopic("a/b", 1, 1), protocol.CodeInvalidTopicException},
		{"250 characters", newTopic(strings.Repeat("y", 250), 1, 1), protocol.CodeInvalidTopicException},
		{"collision", newTopic(strings.ReplaceAll(dotted, ".", "_"), 1, 1), protocol.CodeInvalidTopicException},
		{"no partitions", newTopic(n("p0"), 0, 1), protocol.CodeInvalidPartitions},
		{"-2 partitions", newTopic(n("p-2"), -2, 1), protocol.CodeInvalidPartitions},
		{"replication factor 0", newTopic(n("r0"), 1, 0), protocol.CodeInvalidReplicationFactor},
		{"replication factor -2", newTopic(n("r-2"), 1, -2), protocol.CodeInvalidReplicationFactor},
		{"replication factor 2 of one broker", newTopic(n("r2"), 1, 2), protocol.CodeInvalidReplicationFactor},
		{"replication factor 32767", newTopic(n("r32767"), 1, 32767), protocol.CodeInvalidReplicationFactor},
		{"unknown setting", newTopic(n("c1"), 1, 1, "no.such.setting=1"), protocol.CodeInvalidConfig},
		{"broker's setting", newTopic(n("c2"), 1, 1, "log.retention.ms=1"), protocol.CodeInvalidConfig},
		{"setting out of range", newTopic(n("c3"), 1, 1, "segment.bytes=10"), protocol.CodeInvalidConfig},
		{"setting not a number", newTopic(n("c4"), 1, 1, "retention.ms=soon"), protocol.CodeInvalidConfig},
		{"setting without value", newTopic(n("c5"), 1, 1, "retention.ms"), protocol.CodeInvalidConfig},
		{"assignment and partitions", assigned(newTopic(n("a1"), 1, -1), []int32{0, 1}), protocol.CodeInvalidRequest},
		{"assignment and replication factor", assigned(newTopic(n("a2"), -1, 1), []int32{0, 1}), protocol.CodeInvalidRequest},
		{"assignment with a hole", assigned(newTopic(n("a3"), -1, -1), []int32{0, 1}, []int32{2, 1}), protocol.CodeInvalidReplicaAssignment},
		{"assignment twice", assigned(newTopic(n("a4"), -1, -1), []int32{0, 1}, []int32{0, 1}), protocol.CodeInvalidReplicaAssignment},
		{"assignment to nobody", assigned(newTopic(n("a5"), -1, -1), []int32{0}), protocol.CodeInvalidReplicaAssignment},
		{"assignment to a stranger", assigned(newTopic(n("a6"), -1, -1), []int32{0, 77}), protocol.CodeInvalidReplicaAssignment},
		{"assignment of one broker twice", assigned(newTopic(n("a7"), -1, -1), []int32{0, 1, 1}), protocol.CodeInvalidReplicaAssignment},
		{"metadata log", newTopic("__cluster_metadata", 1, 1), protocol.CodeInvalidRequest},
	}
	for _, v := range versions(t, protocol.KeyCreateTopics) {
		c := a.dial()
		for _, tt := range tests {
			for _, validate := range []bool{true, false} {
				rt := c.call(createTopics(validate, tt.topic), v).(*kmsg.CreateTopicsResponse).Topics[0]
				if rt.ErrorCode != tt.want || rt.Topic != tt.topic.Topic {
					t.Errorf("v%d %s: code %d %v, want %d", v, tt.what, rt.ErrorCode, text(rt.ErrorMessage), tt.want)
				}
				if text(rt.ErrorMessage) == "" || rt.ErrorMessage == nil {
					t.Errorf("v%d %s: no message", v, tt.what)
				}
			}
		}
		// A name twice is refused, the other topic of the request is not.
		ok := n("ok" + string('a'+rune(v)))
		resp := c.call(createTopics(false, newTopic(n("twice"), 1, 1), newTopic(ok, 1, 1), newTopic(n("twice"), 1, 1)), v).(*kmsg.CreateTopicsResponse)
		codes := map[string]int16{}
		for _, rt := range resp.Topics {
			codes[rt.Topic] = rt.ErrorCode
		}
		if len(resp.Topics) != 2 || codes[ok] != 0 || codes[n("twice")] != protocol.CodeInvalidRequest {
			t.Errorf("v%d: a name twice: %v", v, codes)
		}
	}
	for _, name := range topicNames(a.dial().metadata(9, false, n("p0"), n("r2"), n("c1"), n("a3"), n("twice"))) {
		if rt := a.dial().metadata(9, false, name).Topics[0]; rt.ErrorCode != protocol.CodeUnknownTopicOrPartition {
			t.Errorf("%s exists after it was refused", name)
		}
	}
}

func text(s *string) string {
	if s == nil {
		return "(no message)"
	}
	return *s
}

// TestCreateTopicsAnswers: what a good request gets, and that validateOnly makes
// nothing.
func TestCreateTopicsAnswers(t *testing.T) {
	a := newAPI(t)
	for _, v := range versions(t, protocol.KeyCreateTopics) {
		name := a.name("good" + string('a'+rune(v)))
		c := a.dial()
		req := newTopic(name, 3, 1, "retention.ms=1234", "cleanup.policy=compact")
		rt := c.call(createTopics(true, req), v).(*kmsg.CreateTopicsResponse).Topics[0]
		if rt.ErrorCode != 0 {
			t.Fatalf("v%d validate: %d %s", v, rt.ErrorCode, text(rt.ErrorMessage))
		}
		if got := c.metadata(9, false, name).Topics[0].ErrorCode; got != protocol.CodeUnknownTopicOrPartition {
			t.Fatalf("v%d: a validated topic exists: %d", v, got)
		}
		rt = c.call(createTopics(false, req), v).(*kmsg.CreateTopicsResponse).Topics[0]
		if rt.ErrorCode != 0 {
			t.Fatalf("v%d: %d %s", v, rt.ErrorCode, text(rt.ErrorMessage))
		}
		if v >= 7 && rt.TopicID == model.NoTopicID {
			t.Errorf("v%d: no topic id", v)
		}
		if v < 5 {
			continue
		}
		if rt.NumPartitions != 3 || rt.ReplicationFactor != 1 || rt.ConfigErrorCode != 0 {
			t.Errorf("v%d: %d partitions, factor %d", v, rt.NumPartitions, rt.ReplicationFactor)
		}
		found := map[string]kmsg.CreateTopicsResponseTopicConfig{}
		for _, rc := range rt.Configs {
			found[rc.Name] = rc
		}
		if rc := found["retention.ms"]; text(rc.Value) != "1234" || rc.Source != 1 || rc.ReadOnly || rc.IsSensitive {
			t.Errorf("v%d: retention.ms %+v", v, rc)
		}
		if rc := found["max.compaction.lag.ms"]; text(rc.Value) != "9223372036854775807" || rc.Source != 5 {
			t.Errorf("v%d: max.compaction.lag.ms %+v", v, rc)
		}
	}
	// -1 is the broker's default, from version 4.
	rt := a.dial().call(createTopics(false, newTopic(a.name("defaults"), -1, -1)), 5).(*kmsg.CreateTopicsResponse).Topics[0]
	if rt.ErrorCode != 0 || rt.NumPartitions != 1 || rt.ReplicationFactor != 1 {
		t.Errorf("defaults: %+v", rt)
	}
	// A client that was told of the topic can use it here at once.
	c := a.dial()
	name := a.name("at-once")
	c.call(createTopics(false, newTopic(name, 1, 1)), 7)
	if a.kafka() {
		a.await(name, 1)
	}
	if at := c.produce(name, 0, plainBatch(1, 1)); at != 0 {
		t.Errorf("first offset %d", at)
	}
}

func deleteTopic(v int16, name string, id model.TopicID) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10_000
	if v < 6 {
		req.TopicNames = []string{name}
		return req
	}
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.TopicID = id
	if name != "" {
		rt.Topic = &name
	}
	req.Topics = append(req.Topics, rt)
	return req
}

func TestDeleteTopics(t *testing.T) {
	a := newAPI(t)
	for _, v := range versions(t, protocol.KeyDeleteTopics) {
		c := a.dial()
		name, _ := a.topic("gone"+string('a'+rune(v)), 2)
		resp := c.call(deleteTopic(v, a.name("nowhere"), model.NoTopicID), v).(*kmsg.DeleteTopicsResponse)
		if got := resp.Topics[0].ErrorCode; got != protocol.CodeUnknownTopicOrPartition {
			t.Errorf("v%d unknown: %d", v, got)
		}
		resp = c.call(deleteTopic(v, name, model.NoTopicID), v).(*kmsg.DeleteTopicsResponse)
		if got := resp.Topics[0]; got.ErrorCode != 0 || *got.Topic != name {
			t.Errorf("v%d: %+v", v, got)
		}
		eventually(t, name+" is gone", func() bool {
			return c.metadata(9, false, name).Topics[0].ErrorCode == protocol.CodeUnknownTopicOrPartition
		})
	}
	// By id.
	c := a.dial()
	name, id := a.topic("by-id", 1)
	tests := []struct {
		what string
		name string
		id   model.TopicID
		want protocol.Code
	}{
		{"neither", "", model.NoTopicID, protocol.CodeInvalidRequest},
		{"both", name, id, protocol.CodeInvalidRequest},
		{"unknown id", "", model.TopicID{9, 9}, protocol.CodeUnknownTopicID},
		{"id", "", id, protocol.CodeNone},
		{"again", "", id, protocol.CodeUnknownTopicID},
	}
	for _, tt := range tests {
		if got := c.call(deleteTopic(6, tt.name, tt.id), 6).(*kmsg.DeleteTopicsResponse).Topics[0]; got.ErrorCode != tt.want {
			t.Errorf("%s: %+v, want %d", tt.what, got, tt.want)
		}
	}
	// A name twice.
	name, _ = a.topic("twice", 1)
	req := deleteTopic(6, name, model.NoTopicID)
	req.Topics = append(req.Topics, req.Topics[0])
	resp := c.call(req, 6).(*kmsg.DeleteTopicsResponse)
	for _, rt := range resp.Topics {
		if rt.ErrorCode != protocol.CodeInvalidRequest {
			t.Errorf("a name twice: %+v", rt)
		}
	}
	// A new topic of the same name has another id and nothing of the old.
	c.produce(name, 0, plainBatch(3, 10))
	before := c.metadata(12, false, name).Topics[0].TopicID
	c.call(deleteTopic(6, name, model.NoTopicID), 6)
	eventually(t, name+" is gone", func() bool {
		return c.metadata(9, false, name).Topics[0].ErrorCode == protocol.CodeUnknownTopicOrPartition
	})
	_, after := a.topic("twice", 1)
	if before == after {
		t.Errorf("the new topic has the old one's id")
	}
	if got := c.listOffset(7, name, 0, -1, 0); got.ErrorCode != 0 || got.Offset != 0 {
		t.Errorf("the new topic ends at %+v", got)
	}
}

func TestCreatePartitions(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("grows", 2)
	grow := func(name string, count int32, lists ...[]int32) kmsg.CreatePartitionsRequestTopic {
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count = name, count
		for _, l := range lists {
			as := kmsg.NewCreatePartitionsRequestTopicAssignment()
			as.Replicas = l
			rt.Assignment = append(rt.Assignment, as)
		}
		return rt
	}
	tests := []struct {
		what string
		rt   kmsg.CreatePartitionsRequestTopic
		want protocol.Code
	}{
		{"unknown", grow(a.name("nowhere"), 3), protocol.CodeUnknownTopicOrPartition},
		{"same", grow(name, 2), protocol.CodeInvalidPartitions},
		{"fewer", grow(name, 1), protocol.CodeInvalidPartitions},
		{"none", grow(name, 0), protocol.CodeInvalidPartitions},
		{"negative", grow(name, -1), protocol.CodeInvalidPartitions},
		{"too few assignments", grow(name, 4, []int32{1}), protocol.CodeInvalidReplicaAssignment},
		{"a stranger", grow(name, 3, []int32{77}), protocol.CodeInvalidReplicaAssignment},
		{"another factor", grow(name, 3, []int32{1, 1}), protocol.CodeInvalidReplicaAssignment},
		{"nobody", grow(name, 3, []int32{}), protocol.CodeInvalidReplicaAssignment},
	}
	want := int32(2)
	for _, v := range versions(t, protocol.KeyCreatePartitions) {
		c := a.dial()
		call := func(validate bool, topics ...kmsg.CreatePartitionsRequestTopic) []kmsg.CreatePartitionsResponseTopic {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis, req.ValidateOnly, req.Topics = 10_000, validate, topics
			return c.call(req, v).(*kmsg.CreatePartitionsResponse).Topics
		}
		for _, tt := range tests {
			rt := tt.rt
			if rt.Count > 2 {
				rt.Count += want - 2
			}
			if got := call(false, rt)[0]; got.ErrorCode != tt.want {
				t.Errorf("v%d %s: %d %s, want %d", v, tt.what, got.ErrorCode, text(got.ErrorMessage), tt.want)
			}
		}
		if got := call(false, grow(name, 9), grow(name, 9)); len(got) != 1 || got[0].ErrorCode != protocol.CodeInvalidRequest {
			t.Errorf("v%d twice: %+v", v, got)
		}
		if got := call(true, grow(name, want+1))[0]; got.ErrorCode != 0 {
			t.Errorf("v%d validate: %+v", v, got)
		}
		if got := len(c.metadata(9, false, name).Topics[0].Partitions); got != int(want) {
			t.Errorf("v%d: %d partitions after validating, want %d", v, got, want)
		}
		want++
		if got := call(false, grow(name, want, []int32{1}))[0]; got.ErrorCode != 0 {
			t.Errorf("v%d: %+v", v, got)
		}
		a.await(name, want)
		if at := c.produce(name, want-1, plainBatch(1, 1)); at != 0 {
			t.Errorf("v%d: first offset %d", v, at)
		}
	}
}

// What has settings, by type (KIP-1142).
func TestListConfigResources(t *testing.T) {
	a := newAPI(t)
	c := a.dial()
	topic, _ := a.topic("has-settings", 1)
	list := func(version int16, types ...int8) (map[int8][]string, protocol.Code) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		resp := c.call(req, version).(*kmsg.ListConfigResourcesResponse)
		out := map[int8][]string{}
		for _, r := range resp.ConfigResources {
			out[r.Type] = append(out[r.Type], r.Name)
		}
		return out, resp.ErrorCode
	}
	if got, code := list(0); code != 0 || len(got) != 0 {
		t.Errorf("version 0: %v, %d", got, code)
	}
	all, code := list(1)
	if code != 0 || !slices.Contains(all[2], topic) || len(all[4]) != 1 || !slices.Equal(all[4], all[8]) || len(all[16])+len(all[32]) != 0 {
		t.Errorf("all: %v, %d", all, code)
	}
	if got, code := list(1, 4, 4); code != 0 || len(got) != 1 || len(got[4]) != 1 {
		t.Errorf("brokers: %v, %d", got, code)
	}
	if got, code := list(1, 2, 3); code != protocol.CodeUnsupportedVersion || len(got) != 0 {
		t.Errorf("an unknown type: %v, %d", got, code)
	}
}

func TestDescribeTopicPartitions(t *testing.T) {
	a := newAPI(t)
	aName, aID := a.topic("pages-a", 3)
	bName, _ := a.topic("pages-b", 2)
	cName, _ := a.topic("pages-c", 1)
	describe := func(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, names ...string) *kmsg.DescribeTopicPartitionsResponse {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit, req.Cursor = limit, cursor
		for _, n := range names {
			rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
			rt.Topic = n
			req.Topics = append(req.Topics, rt)
		}
		return a.dial().call(req, 0).(*kmsg.DescribeTopicPartitionsResponse)
	}
	type part struct {
		topic string
		n     int32
	}
	all := []part{{aName, 0}, {aName, 1}, {aName, 2}, {bName, 0}, {bName, 1}, {cName, 0}}
	for limit := int32(1); limit <= 7; limit++ {
		var got []part
		var cursor *kmsg.DescribeTopicPartitionsRequestCursor
		for pages := 0; ; pages++ {
			resp := describe(limit, cursor, cName, aName, bName)
			n := 0
			for _, rt := range resp.Topics {
				if rt.ErrorCode != 0 {
					t.Fatalf("limit %d: %+v", limit, rt)
				}
				for _, p := range rt.Partitions {
					got = append(got, part{*rt.Topic, p.Partition})
					n++
				}
			}
			if n > int(limit) {
				t.Fatalf("limit %d: a page of %d partitions", limit, n)
			}
			if resp.NextCursor == nil || pages > 10 {
				break
			}
			cur := kmsg.NewDescribeTopicPartitionsRequestCursor()
			cur.Topic, cur.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
			cursor = &cur
		}
		if !slices.Equal(got, all) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	resp := describe(100, nil, aName, a.name("nowhere"), "a b")
	codes := map[string]int16{}
	for _, rt := range resp.Topics {
		codes[*rt.Topic] = rt.ErrorCode
		if *rt.Topic != aName {
			continue
		}
		p := rt.Partitions[0]
		if rt.TopicID != aID || p.LeaderID != 1 || !slices.Equal(p.Replicas, []int32{1}) || !slices.Equal(p.ISR, []int32{1}) || len(p.OfflineReplicas) != 0 || rt.AuthorizedOperations != 3576 {
			t.Errorf("%+v", rt)
		}
	}
	if codes[aName] != 0 || codes[a.name("nowhere")] != protocol.CodeUnknownTopicOrPartition || codes["a b"] != protocol.CodeInvalidTopicException {
		t.Errorf("codes %v", codes)
	}
	bad := kmsg.NewDescribeTopicPartitionsRequestCursor()
	bad.Topic, bad.Partition = aName, -1
	for _, rt := range describe(10, &bad, aName).Topics {
		if rt.ErrorCode != protocol.CodeInvalidRequest {
			t.Errorf("a negative cursor: %+v", rt)
		}
	}
}
