package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark/tidemark/internal/model"
	"github.com/tidemark/tidemark/protocol"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

func (c *rawConn) describe(v int16, t kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName, rr.ConfigNames = t, name, keys
	req.Resources = append(req.Resources, rr)
	return c.call(req, v).(*kmsg.DescribeConfigsResponse).Resources[0]
}

// configOp is one operation of IncrementalAlterConfigs.
type configOp struct {
	key   string
	op    int8
	value string // "" is null
}

const (
	altSet      = 0
	altDelete   = 1
	altAppend   = 2
	altSubtract = 3
)

func incremental(validate bool, t kmsg.ConfigResourceType, name string, ops ...configOp) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validate
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = t, name
	for _, o := range ops {
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Op = o.key, kmsg.IncrementalAlterConfigOp(o.op)
		if o.value != "" {
			rc.Value = &o.value
		}
		rr.Configs = append(rr.Configs, rc)
	}
	req.Resources = append(req.Resources, rr)
	return req
}

// alter sets, or with an empty value deletes, a setting and waits until it shows.
func (a *api) alter(t kmsg.ConfigResourceType, name, key, value string) {
	a.t.Helper()
	op := configOp{key, altSet, value}
	if value == "" {
		op.op = altDelete
	}
	c := a.dial()
	got := c.call(incremental(false, t, name, op), 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	if got.ErrorCode != 0 {
		a.t.Fatalf("set %s of %q to %q: %d %s", key, name, value, got.ErrorCode, text(got.ErrorMessage))
	}
	if value != "" && a.kafka() {
		eventually(a.t, key+" shows", func() bool {
			found := c.describe(4, t, name, key).Configs
			return len(found) > 0 && text(found[0].Value) == value
		})
	}
}

const (
	topicType  = kmsg.ConfigResourceTypeTopic
	brokerType = kmsg.ConfigResourceTypeBroker
)

func TestDescribeConfigsErrors(t *testing.T) {
	a := newAPI(t)
	tests := []struct {
		what string
		t    kmsg.ConfigResourceType
		name string
		want protocol.Code
	}{
		{"unknown topic", topicType, a.name("nowhere"), protocol.CodeUnknownTopicOrPartition},
		{"topic name", topicType, "a b", protocol.CodeInvalidTopicException},
		{"no topic name", topicType, "", protocol.CodeInvalidTopicException},
		{"another broker", brokerType, "2", protocol.CodeInvalidRequest},
		{"no broker id", brokerType, "one", protocol.CodeInvalidRequest},
		{"unknown type", 77, "x", protocol.CodeInvalidRequest},
	}
	for _, v := range versions(t, protocol.KeyDescribeConfigs) {
		c := a.dial()
		for _, tt := range tests {
			got := c.describe(v, tt.t, tt.name)
			if got.ErrorCode != tt.want || got.ErrorMessage == nil || len(got.Configs) != 0 || got.ResourceName != tt.name {
				t.Errorf("v%d %s: %d %s, want %d", v, tt.what, got.ErrorCode, text(got.ErrorMessage), tt.want)
			}
		}
	}
}

// TestDescribeConfigsSources follows one setting through its layers.
func TestDescribeConfigsSources(t *testing.T) {
	a := newAPI(t, "log.segment.bytes=1048576")
	name, _ := a.topic("layers", 1)
	type synonym struct {
		name, value string
		source      kmsg.ConfigSource
	}
	check := func(step, key, value string, source kmsg.ConfigSource, synonyms ...synonym) {
		t.Helper()
		for _, v := range versions(t, protocol.KeyDescribeConfigs) {
			got := a.dial().describe(v, topicType, name, key)
			if len(got.Configs) != 1 {
				t.Fatalf("%s v%d: %d settings", step, v, len(got.Configs))
			}
			e := got.Configs[0]
			if text(e.Value) != value || e.Source != source || e.ReadOnly || e.IsSensitive {
				t.Errorf("%s v%d: %s=%s source %d, want %s source %d", step, v, key, text(e.Value), e.Source, value, source)
			}
			var syn []synonym
			for _, s := range e.ConfigSynonyms {
				syn = append(syn, synonym{s.Name, text(s.Value), s.Source})
			}
			if !slices.Equal(syn, synonyms) {
				t.Errorf("%s v%d: synonyms %v, want %v", step, v, syn, synonyms)
			}
			if v >= 3 && (e.ConfigType == 0 || text(e.Documentation) == "") {
				t.Errorf("%s v%d: type %d, documentation %q", step, v, e.ConfigType, text(e.Documentation))
			}
		}
	}
	bytesDefault := synonym{"log.segment.bytes", "1073741824", 5}
	static := synonym{"log.segment.bytes", "1048576", 4}
	check("static", "segment.bytes", "1048576", 4, static, bytesDefault)
	check("default", "max.message.bytes", "1048588", 5, synonym{"message.max.bytes", "1048588", 5})

	a.alter(brokerType, "", "log.segment.bytes", "2097152")
	cluster := synonym{"log.segment.bytes", "2097152", 3}
	check("cluster", "segment.bytes", "2097152", 3, cluster, static, bytesDefault)
	a.alter(brokerType, "1", "log.segment.bytes", "3145728")
	node := synonym{"log.segment.bytes", "3145728", 2}
	check("broker", "segment.bytes", "3145728", 2, node, cluster, static, bytesDefault)
	a.alter(topicType, name, "segment.bytes", "4194304")
	check("topic", "segment.bytes", "4194304", 1, synonym{"segment.bytes", "4194304", 1}, node, cluster, static, bytesDefault)

	// The brokers' own resources.
	e := a.dial().describe(4, brokerType, "1", "log.segment.bytes").Configs[0]
	if text(e.Value) != "3145728" || e.Source != 2 || e.ReadOnly {
		t.Errorf("broker 1: %+v", e)
	}
	if all := a.dial().describe(4, brokerType, ""); len(all.Configs) == 0 || !slices.ContainsFunc(all.Configs, func(e kmsg.DescribeConfigsResponseResourceConfig) bool {
		return e.Name == "log.segment.bytes" && text(e.Value) == "2097152" && e.Source == 3
	}) {
		t.Errorf("cluster: %+v", all)
	}
	if e := a.dial().describe(4, brokerType, "1", "node.id").Configs[0]; !e.ReadOnly || text(e.Value) != "1" {
		t.Errorf("node.id: %+v", e)
	}
	a.alter(topicType, name, "segment.bytes", "")
	a.alter(brokerType, "1", "log.segment.bytes", "")
	a.alter(brokerType, "", "log.segment.bytes", "")
	eventually(t, "the layers are gone", func() bool {
		return a.dial().describe(4, topicType, name, "segment.bytes").Configs[0].Source == 4
	})
	// Unknown names are left out, none is asked for by an empty list, all by no list.
	if got := a.dial().describe(4, topicType, name, "no.such.setting", "retention.ms"); len(got.Configs) != 1 {
		t.Errorf("an unknown name: %+v", got)
	}
	if got := a.dial().describe(4, topicType, name); len(got.Configs) < 20 {
		t.Errorf("%d settings of a topic", len(got.Configs))
	}
}

func TestIncrementalAlterConfigsErrors(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("alter", 1)
	tests := []struct {
		what string
		t    kmsg.ConfigResourceType
		name string
		ops  []configOp
		want protocol.Code
	}{
		{"unknown topic", topicType, a.name("nowhere"), []configOp{{"retention.ms", altSet, "1"}}, protocol.CodeUnknownTopicOrPartition},
		{"no topic name", topicType, "", []configOp{{"retention.ms", altSet, "1"}}, protocol.CodeInvalidRequest},
		{"unknown setting", topicType, name, []configOp{{"no.such.setting", altSet, "1"}}, protocol.CodeInvalidConfig},
		{"broker's setting", topicType, name, []configOp{{"log.retention.ms", altSet, "1"}}, protocol.CodeInvalidConfig},
		{"out of range", topicType, name, []configOp{{"segment.bytes", altSet, "10"}}, protocol.CodeInvalidConfig},
		{"not a number", topicType, name, []configOp{{"retention.ms", altSet, "soon"}}, protocol.CodeInvalidConfig},
		{"no such choice", topicType, name, []configOp{{"compression.type", altSet, "brotli"}}, protocol.CodeInvalidConfig},
		{"null", topicType, name, []configOp{{"retention.ms", altSet, ""}}, protocol.CodeInvalidRequest},
		{"twice", topicType, name, []configOp{{"retention.ms", altSet, "1"}, {"retention.ms", altSet, "2"}}, protocol.CodeInvalidRequest},
		{"unknown operation", topicType, name, []configOp{{"retention.ms", 9, "1"}}, protocol.CodeInvalidRequest},
		{"append to a number", topicType, name, []configOp{{"retention.ms", altAppend, "1"}}, protocol.CodeInvalidConfig},
		{"subtract from a number", topicType, name, []configOp{{"retention.ms", altSubtract, "1"}}, protocol.CodeInvalidConfig},
		{"broker out of range", brokerType, "", []configOp{{"message.max.bytes", altSet, "-5"}}, protocol.CodeInvalidRequest},
		{"broker id", brokerType, "x", []configOp{{"message.max.bytes", altSet, "5000"}}, protocol.CodeInvalidRequest},
		{"read-only", brokerType, "1", []configOp{{"broker.rack", altSet, "r"}}, protocol.CodeInvalidRequest},
		{"read-only for all", brokerType, "", []configOp{{"log.dirs", altSet, "/tmp/x"}}, protocol.CodeInvalidRequest},
		{"per broker only", brokerType, "", []configOp{{"advertised.listeners", altSet, "PLAINTEXT://x:1"}}, protocol.CodeInvalidRequest},
		{"unknown type", 77, name, []configOp{{"retention.ms", altSet, "1"}}, protocol.CodeInvalidRequest},
	}
	for _, v := range versions(t, protocol.KeyIncrementalAlterConfigs) {
		c := a.dial()
		for _, tt := range tests {
			if a.kafka() && tt.what == "unknown operation" {
				continue // there it is -1, UNKNOWN_SERVER_ERROR
			}
			for _, validate := range []bool{true, false} {
				got := c.call(incremental(validate, tt.t, tt.name, tt.ops...), v).(*kmsg.IncrementalAlterConfigsResponse).Resources
				if len(got) != 1 || got[0].ErrorCode != tt.want || got[0].ErrorMessage == nil {
					t.Errorf("v%d %s (validate %t): %d %s, want %d", v, tt.what, validate, got[0].ErrorCode, text(got[0].ErrorMessage), tt.want)
				}
			}
		}
		req := incremental(false, topicType, name, configOp{"retention.ms", altSet, "1"})
		req.Resources = append(req.Resources, req.Resources[0])
		for _, got := range c.call(req, v).(*kmsg.IncrementalAlterConfigsResponse).Resources {
			if got.ErrorCode != protocol.CodeInvalidRequest {
				t.Errorf("v%d: a resource twice: %+v", v, got)
			}
		}
	}
	for _, e := range a.dial().describe(4, topicType, name).Configs {
		if e.Source == 1 {
			t.Errorf("%s was set by a refused request", e.Name)
		}
	}
}

// TestAlterConfigsOperations: set, delete, append, subtract, replace.
func TestAlterConfigsOperations(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("operations", 1)
	c := a.dial()
	const key = "cleanup.policy"
	steps := []struct {
		op   configOp
		want string
	}{
		{configOp{key, altSet, "compact"}, "compact"},
		{configOp{key, altAppend, "delete"}, "compact,delete"},
		{configOp{key, altAppend, "delete"}, "compact,delete"},
		{configOp{key, altSubtract, "compact"}, "delete"},
		{configOp{key, altDelete, ""}, "delete"},
		{configOp{key, altAppend, "compact"}, "delete,compact"},
	}
	for i, s := range steps {
		got := c.call(incremental(false, topicType, name, s.op), 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
		if got.ErrorCode != 0 {
			t.Fatalf("step %d: %d %s", i, got.ErrorCode, text(got.ErrorMessage))
		}
		eventually(t, s.want, func() bool { return text(c.describe(4, topicType, name, key).Configs[0].Value) == s.want })
	}
	// AlterConfigs replaces everything.
	for _, v := range versions(t, protocol.KeyAlterConfigs) {
		for _, validate := range []bool{true, false} {
			req := kmsg.NewPtrAlterConfigsRequest()
			req.ValidateOnly = validate
			rr := kmsg.NewAlterConfigsRequestResource()
			rr.ResourceType, rr.ResourceName = topicType, name
			rc := kmsg.NewAlterConfigsRequestResourceConfig()
			value := "777" + string('0'+rune(v))
			rc.Name, rc.Value = "retention.ms", &value
			rr.Configs = append(rr.Configs, rc)
			req.Resources = append(req.Resources, rr)
			got := c.call(req, v).(*kmsg.AlterConfigsResponse).Resources[0]
			if got.ErrorCode != 0 {
				t.Fatalf("v%d: %d %s", v, got.ErrorCode, text(got.ErrorMessage))
			}
			if validate {
				continue
			}
			eventually(t, "replaced", func() bool {
				d := c.describe(4, topicType, name, "retention.ms", key)
				byName := map[string]string{}
				for _, e := range d.Configs {
					byName[e.Name] = text(e.Value)
				}
				return byName["retention.ms"] == value && byName[key] == "delete"
			})
		}
	}
	for what, tt := range map[string]struct {
		name, key, value string
		want             protocol.Code
	}{
		"unknown topic":   {a.name("nowhere"), "retention.ms", "1", protocol.CodeUnknownTopicOrPartition},
		"unknown setting": {name, "no.such", "1", protocol.CodeInvalidConfig},
		"bad value":       {name, "retention.ms", "x", protocol.CodeInvalidConfig},
		"null":            {name, "retention.ms", "", protocol.CodeInvalidRequest},
	} {
		req := kmsg.NewPtrAlterConfigsRequest()
		rr := kmsg.NewAlterConfigsRequestResource()
		rr.ResourceType, rr.ResourceName = topicType, tt.name
		rc := kmsg.NewAlterConfigsRequestResourceConfig()
		rc.Name = tt.key
		if tt.value != "" {
			rc.Value = &tt.value
		}
		rr.Configs = append(rr.Configs, rc)
		req.Resources = append(req.Resources, rr)
		if got := c.call(req, 2).(*kmsg.AlterConfigsResponse).Resources[0]; got.ErrorCode != tt.want {
			t.Errorf("%s: %d %s, want %d", what, got.ErrorCode, text(got.ErrorMessage), tt.want)
		}
	}
}

// stored returns the last batch of a partition as it is stored.
func (c *rawConn) stored(topic string, from int64) record.Batch {
	c.t.Helper()
	p := c.fetch(11, topic, 0, from, 1<<20)
	it := record.NewIter(p.RecordBatches)
	var last record.Batch
	for it.Next() {
		last = it.Batch()
	}
	if it.Err() != nil || last == nil {
		c.t.Fatalf("fetch %s from %d: code %d, %d bytes, %v", topic, from, p.ErrorCode, len(p.RecordBatches), it.Err())
	}
	if err := last.CheckCRC(); err != nil {
		c.t.Fatal(err)
	}
	return last
}

// TestTopicSettingsTakeEffectOnALivePartition: the producer's connection and
// the partition stay, the next batch is under the new setting.
func TestTopicSettingsTakeEffectOnALivePartition(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("live", 1)
	c := a.dial()
	next := int64(0)
	send := func(b record.Batch) kmsg.ProduceResponseTopicPartition {
		t.Helper()
		p := c.call(produceTo(name, 0, -1, b), 11).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode == 0 {
			if p.BaseOffset != next {
				t.Fatalf("base offset %d, want %d", p.BaseOffset, next)
			}
			next += int64(b.Count())
		}
		return p
	}
	if p := send(plainBatch(3, 1000)); p.ErrorCode != 0 || p.LogAppendTime != -1 {
		t.Fatalf("%+v", p)
	}
	a.alter(topicType, name, "max.message.bytes", "2000")
	if p := send(plainBatch(3, 1000)); p.ErrorCode != protocol.CodeMessageTooLarge || p.BaseOffset != -1 {
		t.Fatalf("max.message.bytes=2000: %+v", p)
	}
	a.alter(topicType, name, "max.message.bytes", "4000")
	if p := send(plainBatch(3, 1000)); p.ErrorCode != 0 {
		t.Fatalf("max.message.bytes=4000: %+v", p)
	}

	a.alter(topicType, name, "message.timestamp.type", "LogAppendTime")
	at := next
	old := record.NewBuilder(record.Options{})
	old.Append(1, []byte("k"), []byte("v")) // a timestamp of 1970
	p := send(old.Build())
	if now := time.Now().UnixMilli(); p.ErrorCode != 0 || p.LogAppendTime > now || p.LogAppendTime < now-20_000 {
		t.Fatalf("LogAppendTime: %+v", p)
	}
	if b := c.stored(name, at); b.TimestampType() != record.LogAppendTime || int64(b.MaxTimestamp()) != p.LogAppendTime {
		t.Fatalf("stored type %v max timestamp %d, answered %d", b.TimestampType(), b.MaxTimestamp(), p.LogAppendTime)
	}
	a.alter(topicType, name, "message.timestamp.type", "CreateTime")

	codecs := map[string]compress.Codec{"gzip": compress.Gzip, "snappy": compress.Snappy, "lz4": compress.LZ4, "zstd": compress.Zstd, "uncompressed": compress.None}
	for _, target := range []string{"gzip", "snappy", "lz4", "zstd", "uncompressed", "producer"} {
		a.alter(topicType, name, "compression.type", target)
		for _, sent := range []compress.Codec{compress.None, compress.Gzip, compress.Snappy, compress.LZ4, compress.Zstd} {
			want, ok := codecs[target]
			if !ok {
				want = sent
			}
			at := next
			b := record.NewBuilder(record.Options{Codec: sent})
			now := model.Timestamp(time.Now().UnixMilli())
			for i := range 20 {
				b.Append(now+model.Timestamp(i), []byte{byte(i)}, []byte(strings.Repeat("value", 20)))
			}
			if p := send(b.Build()); p.ErrorCode != 0 {
				t.Fatalf("%s to %s: %+v", sent, target, p)
			}
			got := c.stored(name, at)
			if got.Codec() != want {
				t.Errorf("%s to compression.type=%s is stored as %s", sent, target, got.Codec())
			}
			n := 0
			err := got.Each(1<<20, func(r *record.Record) error {
				if int64(r.Offset) != at+int64(n) || r.Key[0] != byte(n) || r.Timestamp != now+model.Timestamp(n) || string(r.Value) != strings.Repeat("value", 20) {
					t.Errorf("%s to %s: record %d is %+v", sent, target, n, r)
				}
				n++
				return nil
			})
			if err != nil || n != 20 {
				t.Errorf("%s to %s: %d records, %v", sent, target, n, err)
			}
		}
	}
}

// TestBrokerSettingsReachTopics: a cluster-wide dynamic default is in force for
// topics that don't set it.
func TestBrokerSettingsReachTopics(t *testing.T) {
	a := newAPI(t)
	name, _ := a.topic("inherits", 1)
	own, _ := a.topic("sets", 1, "max.message.bytes=1000000")
	c := a.dial()
	code := func(topic string) protocol.Code {
		return c.call(produceTo(topic, 0, -1, plainBatch(1, 5000)), 11).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	}
	if got := code(name); got != 0 {
		t.Fatalf("before: %d", got)
	}
	a.alter(brokerType, "", "message.max.bytes", "3000")
	if got := code(name); got != protocol.CodeMessageTooLarge {
		t.Errorf("inherited: %d", got)
	}
	if got := code(own); got != 0 {
		t.Errorf("own setting: %d", got)
	}
	a.alter(brokerType, "1", "message.max.bytes", "6000")
	if got := code(name); got != 0 {
		t.Errorf("this broker's own: %d", got)
	}
	a.alter(brokerType, "1", "message.max.bytes", "")
	a.alter(brokerType, "", "message.max.bytes", "")
	eventually(t, "the default is back", func() bool { return code(name) == 0 })
}
