package broker

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
)

func topicNames(m *kmsg.MetadataResponse) (names []string) {
	for i := range m.Topics {
		if m.Topics[i].Topic != nil {
			names = append(names, *m.Topics[i].Topic)
		}
	}
	return names
}

// TestMetadataOfEveryVersion: what of a topic and a cluster each version shows.
func TestMetadataOfEveryVersion(t *testing.T) {
	a := newAPI(t)
	name, id := a.topic("seen", 3)
	other, _ := a.topic("other", 1)
	for _, v := range versions(t, protocol.KeyMetadata) {
		c := a.dial()
		m := c.metadata(v, false, name)
		if v >= 1 && m.ControllerID != 1 {
			t.Errorf("v%d: controller %d, want 1", v, m.ControllerID)
		}
		if v >= 2 && (m.ClusterID == nil || *m.ClusterID == "") {
			t.Errorf("v%d: no cluster id", v)
		}
		if len(m.Brokers) != 1 || m.Brokers[0].NodeID != 1 || m.Brokers[0].Port == 0 {
			t.Errorf("v%d: brokers %+v", v, m.Brokers)
		}
		rt := m.Topics[0]
		if rt.ErrorCode != 0 || *rt.Topic != name || rt.IsInternal || v >= 10 && rt.TopicID != id {
			t.Errorf("v%d: topic %+v", v, rt)
		}
		if len(rt.Partitions) != 3 {
			t.Fatalf("v%d: %d partitions", v, len(rt.Partitions))
		}
		slices.SortFunc(rt.Partitions, func(a, b kmsg.MetadataResponseTopicPartition) int { return int(a.Partition - b.Partition) })
		for i, p := range rt.Partitions {
			if p.Partition != int32(i) || p.Leader != 1 || !slices.Equal(p.Replicas, []int32{1}) || !slices.Equal(p.ISR, []int32{1}) || len(p.OfflineReplicas) != 0 {
				t.Errorf("v%d: partition %+v", v, p)
			}
			if want := int32(0); v >= 7 && p.LeaderEpoch < want {
				t.Errorf("v%d: leader epoch %d", v, p.LeaderEpoch)
			}
		}
		// An empty list: everything in version 0, nothing later.
		if got := topicNames(c.metadata(v, false)); v == 0 != slices.Contains(got, other) {
			t.Errorf("v%d: an empty list gives %v", v, got)
		}
		if v == 0 {
			continue
		}
		all := kmsg.NewPtrMetadataRequest() // no list
		if got := topicNames(c.call(all, v).(*kmsg.MetadataResponse)); !slices.Contains(got, name) || !slices.Contains(got, other) {
			t.Errorf("v%d: no list gives %v", v, got)
		}
	}
}

// TestMetadataUnknownAndInvalidNames: creation is not asked for, or not possible.
func TestMetadataUnknownAndInvalidNames(t *testing.T) {
	a := newAPI(t)
	tests := []struct {
		name   string
		create bool
		want   protocol.Code
	}{
		{"nowhere", false, protocol.CodeUnknownTopicOrPartition},
		{"", false, protocol.CodeInvalidTopicException},
		{".", false, protocol.CodeInvalidTopicException},
		{"..", false, protocol.CodeInvalidTopicException},
		{"a b", true, protocol.CodeInvalidTopicException},
		{"a/../../etc", true, protocol.CodeInvalidTopicException},
		{"a\x00b", true, protocol.CodeInvalidTopicException},
		{strings.Repeat("x", 250), true, protocol.CodeInvalidTopicException},
		{strings.Repeat("x", 249), false, protocol.CodeUnknownTopicOrPartition},
	}
	for _, v := range []int16{4, 8, 9, 11, 12, 13} {
		c := a.dial()
		for _, tt := range tests {
			rt := c.metadata(v, tt.create, tt.name).Topics[0]
			if rt.ErrorCode != tt.want || rt.Topic == nil || *rt.Topic != tt.name || rt.TopicID != model.NoTopicID || len(rt.Partitions) != 0 {
				t.Errorf("v%d %q: %+v, want code %d", v, tt.name, rt, tt.want)
			}
		}
	}
	// One bad name among good ones does not touch them.
	name, _ := a.topic("good", 1)
	m := a.dial().metadata(12, false, "nowhere", name, "a b")
	codes := map[string]int16{}
	for _, rt := range m.Topics {
		codes[*rt.Topic] = rt.ErrorCode
	}
	if len(codes) != 3 || codes[name] != 0 || codes["nowhere"] != protocol.CodeUnknownTopicOrPartition || codes["a b"] != protocol.CodeInvalidTopicException {
		t.Errorf("mixed: %v", codes)
	}
}

func metadataByID(name *string, id model.TopicID) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic, rt.TopicID = name, id
	req.Topics = append(req.Topics, rt)
	return req
}

// TestMetadataByTopicID: ids are understood from version 12; versions 10 and 11
// have the field and refuse its use.
func TestMetadataByTopicID(t *testing.T) {
	a := newAPI(t)
	name, id := a.topic("by-id", 1)
	unknown := model.TopicID{1, 2, 3}
	for _, v := range []int16{12, 13} {
		c := a.dial()
		rt := c.call(metadataByID(nil, id), v).(*kmsg.MetadataResponse).Topics[0]
		if rt.ErrorCode != 0 || rt.Topic == nil || *rt.Topic != name || rt.TopicID != id || len(rt.Partitions) != 1 {
			t.Errorf("v%d: %+v", v, rt)
		}
		rt = c.call(metadataByID(nil, unknown), v).(*kmsg.MetadataResponse).Topics[0]
		if rt.ErrorCode != protocol.CodeUnknownTopicID || rt.Topic != nil || rt.TopicID != unknown {
			t.Errorf("v%d, unknown id: %+v", v, rt)
		}
	}
	for _, v := range []int16{10, 11} {
		m := a.dial().call(metadataByID(&name, id), v).(*kmsg.MetadataResponse)
		if len(m.Topics) != 1 || m.Topics[0].ErrorCode != protocol.CodeInvalidRequest {
			t.Errorf("v%d, an id: %+v", v, m)
		}
	}
}

// TestMetadataAuthorizedOperations: absent unless asked for; everything, since
// there is no authorizer.
func TestMetadataAuthorizedOperations(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("operations", 1)
	const absent = -2147483648
	for _, v := range []int16{8, 9, 10, 11, 12, 13} {
		for _, asked := range []bool{false, true} {
			req := metadataByID(&name, model.NoTopicID)
			req.IncludeTopicAuthorizedOperations = asked
			req.IncludeClusterAuthorizedOperations = asked && v <= 10
			m := a.dial().call(req, v).(*kmsg.MetadataResponse)
			topic, cluster := int32(absent), int32(absent)
			if asked {
				topic = 3576
				if v <= 10 {
					cluster = 8096
				}
			}
			if got := m.Topics[0].AuthorizedOperations; got != topic {
				t.Errorf("v%d asked %t: topic operations %d, want %d", v, asked, got, topic)
			}
			if got := m.AuthorizedOperations; v <= 10 && got != cluster {
				t.Errorf("v%d asked %t: cluster operations %d, want %d", v, asked, got, cluster)
			}
		}
	}
}

// TestMetadataCreatesTopics: before version 4 always, later if the client says
// so. The answer waits for the topic, see docs/decisions.
func TestMetadataCreatesTopics(t *testing.T) {
	a := newAPI(t)
	c := a.dial()
	for _, v := range versions(t, protocol.KeyMetadata) {
		name := a.name("made-by-v" + string('a'+rune(v)))
		rt := c.metadata(v, true, name).Topics[0]
		if a.kafka() {
			if rt.ErrorCode != protocol.CodeUnknownTopicOrPartition {
				t.Errorf("v%d: %+v", v, rt)
			}
			a.await(name, 1)
			continue
		}
		if rt.ErrorCode != 0 || len(rt.Partitions) != 1 || rt.Partitions[0].Leader != 1 {
			t.Errorf("v%d: %+v", v, rt)
		}
	}
	if a.kafka() {
		return
	}
	off := newAPI(t, "auto.create.topics.enable=false")
	if rt := off.dial().metadata(9, true, "refused").Topics[0]; rt.ErrorCode != protocol.CodeUnknownTopicOrPartition {
		t.Errorf("auto creation off: %+v", rt)
	}
}
